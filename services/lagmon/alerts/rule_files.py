"""The rules of alerts as a rule file for Prometheus, made from their declarations. Pure.

Burn rates are computed by Prometheus from lag and targets, so they know the past that a new lagmon does not. All other
conditions are decided by lagmon, in a gauge; Prometheus waits for as long as each rule says. Targets are a gauge, too:
the file stays the same when manifests change.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from braid.kernel.errors import Invalid
from services.lagmon.alerts.decisions.burn_rates import FAST, SLOW, STEADY, BurnAlert, Window
from services.lagmon.alerts.decisions.model import (
    GROUP_UNATTENDED,
    LAG_PAGE,
    LAG_TICKET,
    RULES,
    AlertKey,
    Rule,
    Severity,
)
from services.lagmon.alerts.outlets.decisions.alertmanager import alert_name

FILE_NAME: Final = "braid-alerts.yaml"
RUNBOOKS: Final = "docs/runbooks"
_RUNBOOKS_MAX: Final = 512

_STEP_SECONDS: Final = 10  # between two samples of the lag; the group's interval, so that samples measure time
_COARSE_SECONDS: Final = 300
_LANE: Final = "job, stream, lane, group"
_MISSED: Final = "job_stream_lane_group:braid_lag_target_missed:bool"
_COARSE: Final = "job_stream_lane_group:braid_lag_target_missed:sum5m"
_LAG: Final = 'braid_group_lag_seconds unless on (job, cluster) braid_alert_condition{rule="cluster-down"}'
_BUDGET: Final = "max by (job, stream) (braid_lag_target_budget)"
_WHERE: Final = "".join(
    f"{{{{ with $labels.{name} }}}}, {name} {{{{ . }}}}{{{{ end }}}}"
    for name in ("cluster", "stream", "lane", "group", "certificate")
)


def rule_file(runbooks: str) -> str:
    """Returns the file as YAML. Raises `Invalid` for a place of runbooks that cannot be one.

    Args:
        runbooks: Where the pages about rules are, a path or a URL.
    """
    if len(runbooks) > _RUNBOOKS_MAX or not runbooks.isprintable() or "{{" in runbooks:
        remedy = "name the URL under which docs/runbooks is served"
        raise Invalid("no place of runbooks", field="runbooks", remedy=remedy)
    where = runbooks.rstrip("/") or RUNBOOKS
    lines = [
        "# Alerts of Braid for Prometheus 2.42 and newer: `braid alerts export` writes this file.",
        "# It needs the metrics of all lagmon replicas, scraped as one job at least every ten seconds.",
        "groups:",
        *_group("braid-lag-targets", _STEP_SECONDS, _fast_rules(where)),
        *_group("braid-lag-slow-burn", 60, _slow_rules()),
        *_group("braid-lag-budgets", _COARSE_SECONDS, _steady_rules(where)),
        *_group("braid-conditions", _STEP_SECONDS, _condition_rules(where)),
        *_group("braid-alerting", 30, _own_rules()),
    ]
    return "\n".join(lines) + "\n"


def _fast_rules(runbooks: str) -> Iterator[str]:
    lag = f"max by ({_LANE}) ({_LAG})"
    own = f'max by ({_LANE}) (braid_lag_target_seconds{{group!=""}})'
    common = 'max by (job, stream, lane) (braid_lag_target_seconds{group=""})'
    missed = f"({lag} > bool on ({_LANE}) {own}) or ({lag} > bool on (job, stream, lane) group_left () {common})"
    yield from _record(_MISSED, missed)
    for window in (FAST.long, FAST.short):
        yield from _record(_burn_name(window), _burn(_MISSED, window))
    page = f"({_burns(FAST)} or {_burns(SLOW)}) and {_MISSED} == 1"
    unattended = f'braid_alert_condition{{rule="{GROUP_UNATTENDED.name}"}}'
    expr = f"({page}) unless on ({_LANE}) {unattended}"
    summary = "group {{ $labels.group }} misses its target in lane {{ $labels.lane }} of stream {{ $labels.stream }}"
    yield from _alert(LAG_PAGE, expr, summary, runbooks)


def _slow_rules() -> Iterator[str]:
    for window in (SLOW.long, SLOW.short):
        yield from _record(_burn_name(window), _burn(_MISSED, window))


def _steady_rules(runbooks: str) -> Iterator[str]:
    """Long windows are summed over five minutes first, so that a query takes few samples."""
    yield from _record(_COARSE, f"sum_over_time({_MISSED}[5m])")
    yield from _record(_burn_name(STEADY.long), _burn(_COARSE, STEADY.long, ":5m"))
    unattended = f'braid_alert_condition{{rule="{GROUP_UNATTENDED.name}"}}'
    page = f'ALERTS{{alertname="{alert_name(LAG_PAGE.name)}", alertstate="firing"}}'
    expr = f"({_burns(STEADY)}) unless on ({_LANE}) {unattended} unless on ({_LANE}) {page}"
    summary = (
        "group {{ $labels.group }} uses up its error budget in lane {{ $labels.lane }} of stream {{ $labels.stream }}"
    )
    yield from _alert(LAG_TICKET, expr, summary, runbooks)


def _condition_rules(runbooks: str) -> Iterator[str]:
    for rule in RULES.values():
        if rule not in (LAG_PAGE, LAG_TICKET):
            gauge = f'braid_alert_condition{{rule="{rule.name}"}}'
            expr = f"max by (job, cluster, stream, lane, group, certificate) ({gauge}) > 0"
            yield from _alert(rule, expr, rule.name + _WHERE, runbooks)


def _own_rules() -> Iterator[str]:
    """Alerts about alerts: lagmon is gone, or cannot send."""
    yield from _entry("alert", "BraidLagmonAbsent", 'absent(braid_service_info{service="lagmon"})')
    yield from _rest(120, "page", {"summary": "no lagmon is scraped: alerts reach nobody"})
    yield from _entry("alert", "BraidAlertOutletFailing", "max by (job, outlet) (braid_alert_outlet_failing) > 0")
    text = {"summary": "outlet {{ $labels.outlet }} takes no alerts", "command": "braid doctor"}
    yield from _rest(300, "ticket", text)


def _burn(metric: str, window: Window, step: str = "") -> str:
    """The burn rate that bad time alone makes in a window: time that nobody saw counts as good here."""
    samples = window.seconds // _STEP_SECONDS
    bad = f"sum_over_time({metric}[{_duration(window.seconds)}{step}])"
    return f"{bad} / {samples} / on (job, stream) group_left () {_BUDGET}"


def _burns(alert: BurnAlert) -> str:
    long, short = _burn_name(alert.long), _burn_name(alert.short)
    return f"({long} >= {alert.rate:g} and {short} >= {alert.rate:g})"


def _burn_name(window: Window) -> str:
    return f"job_stream_lane_group:braid_lag_burn_rate:ratio{_duration(window.seconds)}"


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and not seconds % length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _group(name: str, interval_seconds: int, rules: Iterable[str]) -> list[str]:
    return [f"  - name: {name}", f"    interval: {_duration(interval_seconds)}", "    rules:", *rules]


def _record(name: str, expr: str) -> Iterator[str]:
    yield from _entry("record", name, expr)


def _alert(rule: Rule, expr: str, summary: str, runbooks: str) -> Iterator[str]:
    subject = {name: f"{{{{ $labels.{name} }}}}" for name in AlertKey._fields[1:]}
    annotations = {
        "summary": summary,
        "description": rule.remedy,
        "runbook_url": f"{runbooks}/{rule.name}.md",
        "command": "braid " + rule.command.format_map(subject),
    }
    yield from _entry("alert", alert_name(rule.name), expr)
    yield from _rest(rule.after_seconds, Severity(rule.severity).name.lower(), {"rule": rule.name}, annotations)


def _entry(kind: str, name: str, expr: str) -> Iterator[str]:
    yield f"      - {kind}: {name}"
    yield f"        expr: {json.dumps(expr, ensure_ascii=False)}"


def _rest(seconds: float, severity: str, *parts: dict[str, str]) -> Iterator[str]:
    labels, annotations = ({}, *parts)[-2:]
    if seconds:
        yield f"        for: {_duration(seconds)}"
    yield "        labels:"
    for name, text in {"severity": severity, **labels}.items():
        yield f"          {name}: {json.dumps(text)}"
    yield "        annotations:"
    for name, text in annotations.items():
        yield f"          {name}: {json.dumps(text, ensure_ascii=False)}"
