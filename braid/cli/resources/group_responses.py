"""How a group answers lag, as `describe` shows it."""

from braid.cli.core.documents import Document
from braid.cli.core.times import age_text


def response_lines(document: Document, now_ms: int) -> list[str]:
    """The lines about a group's policies and responses; none where it has neither."""
    responses = document.get("responses")
    if not isinstance(responses, dict):
        return []
    policies, taken, undone = (_documents(responses, name) for name in ("policies", "responses", "undone"))
    lines = [f"  {_policy_text(each)}" for each in policies]
    for each in taken:
        values = " -> ".join(filter(None, (values_text(each.get("before")), values_text(each.get("after")))))
        lines.append(f"  {_title(each)} {each['state']} {_since(each, 'since_ms', now_ms)} ago: {values}")
        lines.append(f"    {each['reason']}")
    again = [f"  {_title(each)} undone {_since(each, 'time_ms', now_ms)} ago" for each in undone]
    return ["Responses:", *lines, *again] if policies or taken else []


def policies_text(responses: Document) -> str:
    """A group's policies in one line: `shift-shares automatic, 1 at once, reach 0.8`; `off` without any."""
    return "; ".join(map(_policy_text, _documents(responses, "policies"))) or "off"


def values_text(values: object) -> str:
    """Figures that a response changes, on one line: `bulk=1,live=4`."""
    given = [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []
    return ",".join(f"{each['name']}={each['value']:g}" for each in given)


def _policy_text(policy: Document) -> str:
    lane = f" on {policy['lane']}" if policy.get("lane") else ""
    kind = str(policy["kind"]).replace("_", "-")
    told = f"{kind}{lane} {policy['mode']}"
    return told if policy["mode"] == "off" else f"{told}, {policy['budget']} at once, reach {policy['reach']:g}"


def _title(response: Document) -> str:
    named = (str(response["kind"]).replace("_", "-"), response.get("lane"), response.get("subject"))
    return " ".join(str(each) for each in named if each)


def _since(document: Document, name: str, now_ms: int) -> str:
    since_ms = document.get(name)
    return age_text(since_ms, now_ms) if isinstance(since_ms, int) else "-"


def _documents(document: Document, name: str) -> list[Document]:
    found = document.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
