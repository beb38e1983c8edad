"""Recording rules for Prometheus, made from declarations: what boards and alerts would compute again and again."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics import catalogue as runtime
from services.lagmon.servicer import metrics as lag

WINDOW: Final = "5m"
_HEAD: Final = """\
# Recording rules of Braid. Written by `python -m tools.boards write` from the declarations of metrics; `make check`
# compares. Rules that alert: `braid get alerts`, and docs/guides/alerts.md.
"""


class Rule(NamedTuple):
    """A recorded query; its name is level, metric and operation, as Prometheus' guide to rules asks for."""

    record: str
    expr: str


def rules() -> Sequence[Rule]:
    """All recording rules."""
    lag_labels = ("stream", "lane", "group")
    return (
        *_quantiles(runtime.RPC_SECONDS, "method"),
        *_quantiles(runtime.DECIDE_SECONDS, "kind"),
        *_quantiles(runtime.APPEND_SECONDS, "kind"),
        Rule(
            "method:braid_rpc_failures:ratio_rate5m",
            f'sum by (method) (rate({runtime.RPC_SECONDS.name}_count{{code!="OK"}}[{WINDOW}]))'
            f" / sum by (method) (rate({runtime.RPC_SECONDS.name}_count[{WINDOW}]))",
        ),
        Rule(
            "stream_lane_group:braid_group_lag_seconds:max",
            f"max by ({', '.join(lag_labels)}) ({lag.GROUP_LAG_SECONDS.series})",
        ),
        Rule(
            "stream_lane_group:braid_group_lag_records:sum",
            f"sum by ({', '.join(lag_labels)}) (max by ({', '.join(lag.GROUP_LAG_RECORDS.labels)})"
            f" ({lag.GROUP_LAG_RECORDS.series}))",
        ),
    )


def text() -> str:
    """The file of rules, as YAML."""
    lines = [_HEAD, "groups:", "  - name: braid", "    rules:"]
    for rule in rules():
        lines += [f"      - record: {rule.record}", f"        expr: {json.dumps(rule.expr)}"]
    return "\n".join(lines) + "\n"


def _quantiles(declared: MetricDeclaration, label: str) -> Sequence[Rule]:
    buckets = f"sum by (le, {label}) (rate({declared.name}_bucket[{WINDOW}]))"
    return tuple(
        Rule(f"{label}:{declared.name}:{name}_rate5m", f"histogram_quantile({share}, {buckets})")
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    )
