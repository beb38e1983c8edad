"""How many members a group should have, as `describe` and `get` show it."""

from braid.cli.core.documents import Document
from braid.cli.core.times import age_text

_LIMITS = {"bound": "too few, but no more are allowed", "no_gain": "too few, but more did not help"}


def scaling_lines(document: Document, now_ms: int) -> list[str]:
    """The lines about a group's number of members; none while nothing is computed."""
    scaling, status = document.get("scaling"), document.get("status")
    if not isinstance(scaling, dict) or not isinstance(desired := scaling.get("desired"), dict):
        return []
    members = status.get("members", 0) if isinstance(status, dict) else 0
    since_ms = desired["since_ms"]
    since = age_text(since_ms, now_ms) if isinstance(since_ms, int) else "-"
    limit = _LIMITS.get(str(desired["limit"]), "")
    return [
        "Scaling:",
        f"  policy    {_policy_text(scaling)}",
        f"  members   {members} now, {desired['members']} desired for {since}{f' ({limit})' if limit else ''}",
        f"  why       {desired['reason']}",
    ]


def scaling_text(scaling: Document) -> str:
    """A group's policy and number in one line: `automatic, 2 to 12 members; 3 desired`."""
    desired = scaling.get("desired")
    if not isinstance(desired, dict):
        return "off"
    return f"{_policy_text(scaling)}; {desired['members']} desired"


def _policy_text(scaling: Document) -> str:
    policy = scaling.get("policy")
    if not isinstance(policy, dict):
        return "off"
    return f"{policy['mode']}, {policy['min_members']} to {policy['max_members']} members"
