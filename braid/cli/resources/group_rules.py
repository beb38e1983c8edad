"""Operators' rules for a group, as `describe` shows them."""

from collections.abc import Mapping, Sequence
from typing import cast

from braid.cli.core.documents import Document, Value
from braid.cli.core.times import age_text


def rule_lines(rules: Document, now_ms: int) -> list[str]:
    """The lines about a group's rules; one line if there are none."""
    lines = _freeze(rules, now_ms)
    lines += [f"  drain     {each['member']}: {_drained(each, now_ms)}" for each in _each(rules, "drains")]
    for each in _each(rules, "pins"):
        lines.append(f"  pin       {each['lease']} to {each['member']}{' only' if each['strict'] else ''}")
    for each in _each(rules, "bans"):
        lines.append(f"  ban       {each['member']} from {each['path'] or 'cluster ' + str(each['cluster'])}")
    capacities = cast("Mapping[str, float]", rules.get("capacities") or {})
    lines += [f"  capacity  {member}: {capacity:g}" for member, capacity in sorted(capacities.items())]
    if rules.get("zones") in ("prefer", "strict"):
        lines.append(f"  zones     {rules['zones']}")
    if rules.get("spread_hosts"):
        lines.append("  hosts     apart")
    lines += _policies(rules, now_ms)
    lines += [f"  note: {warning}" for warning in cast("Sequence[str]", rules.get("warnings") or ())]
    return ["Rules:", *lines] if lines else ["Rules: none"]


def policy_text(policy: Document) -> str:
    """A policy for people: `load (moves above 0.3 of the mean)`."""
    bands = [
        f"{word} {policy[name]:g}" for word, name in (("above", "band_high"), ("below", "band_low")) if policy[name]
    ]
    return f"{policy['basis']}" + (f" (moves {' or '.join(bands)} of the mean)" if bands else "")


def _policies(rules: Document, now_ms: int) -> list[str]:
    """How leases are placed if not by the default, and the shadow policy."""
    policy, shadow = rules.get("policy"), rules.get("shadow")
    lines: list[str] = []
    if isinstance(policy, dict) and policy_text(policy) not in ("load", "unspecified"):
        lines.append(f"  policy    {policy_text(policy)}")
    if isinstance(shadow, dict) and isinstance(tried := shadow["policy"], dict):
        since = age_text(cast("int", shadow["since_ms"]), now_ms)
        lines.append(f"  shadow    {policy_text(tried)}, for {since}: computed and compared, nothing moves by it")
    return lines


def _freeze(rules: Document, now_ms: int) -> list[str]:
    freeze = rules.get("freeze")
    if not isinstance(freeze, dict):
        return []
    since = age_text(cast("int", freeze["since_ms"]), now_ms)
    return [f"  frozen    for {since}: no held lease moves{_because(freeze)}"]


def _drained(drain: Document, now_ms: int) -> str:
    since = age_text(cast("int", drain["since_ms"]), now_ms)
    left = "" if drain["state"] == "drained" else f", {drain['leases']} leases to go"
    return f"{drain['state']}{left}, for {since}{_because(drain)}"


def _because(rule: Document) -> str:
    return f" ({rule['reason']})" if rule["reason"] else ""


def _each(rules: Document, name: str) -> list[Document]:
    return [each for each in cast("Sequence[Value]", rules.get(name) or ()) if isinstance(each, dict)]
