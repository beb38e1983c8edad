"""The overview's numbers, which follow from its other parts. Pure."""

from collections.abc import Callable, Mapping
from typing import cast

from braid.rpc.documents import Document, Value
from console.server.live.parts import Part, Single, Table

_PARTS = ("clusters", "streams", "group_counts", "lag", "alerts")


def overview_summary(parts: Mapping[str, Part]) -> Mapping[str, Part]:
    """The numbers at the head of the overview; a number is null until its list has been read."""
    numbers: Document = {
        "clusters": _count(parts["clusters"], lambda row: True),
        "clusters_unwell": _count(parts["clusters"], lambda row: _status(row).get("health") != "healthy"),
        "streams": _count(parts["streams"], lambda row: True),
        "streams_blocked": _count(parts["streams"], lambda row: bool(_status(row).get("blocked_reason"))),
        "moves": _count(parts["streams"], _moves),
        **_group_numbers(parts["group_counts"]),
        **_lag_numbers(parts["lag"]),
        "alerts_firing": _count(parts["alerts"], lambda row: row["state"] == "firing"),
    }
    needed = [parts[name] for name in _PARTS]
    problem = next((each.problem for each in needed if each.problem is not None), None)
    oldest = min(each.as_of_ms for each in needed)
    return {"summary": Part(Single(numbers), oldest, any(each.stale for each in needed), problem)}


def _count(part: Part, wanted: Callable[[Document], bool]) -> int | None:
    rows = _rows(part)
    return None if rows is None else sum(map(wanted, rows.values()))


def _rows(part: Part) -> Mapping[str, Document] | None:
    """A table's rows; None where it was never read, or must not be shown."""
    known = part.as_of_ms > 0 and not (part.problem is not None and part.problem.forgets)
    return part.content.rows if known and isinstance(part.content, Table) else None


def _status(row: Document) -> Document:
    return cast("Document", row.get("status") or {})


def _moves(row: Document) -> bool:
    """Whether some channel of a stream still drains."""
    channels = cast("list[Document]", _status(row).get("channels") or [])
    return any(each["state"] == "draining" for each in channels)


def _group_numbers(part: Part) -> Document:
    counts = part.content.value if isinstance(part.content, Single) else None
    return {name: None if counts is None else counts[name] for name in ("groups", "free_leases")}


def _lag_numbers(part: Part) -> Document:
    rows = _rows(part)
    if rows is None:
        return {"worst_lag_seconds": None, "lag_stale": None}
    worst: Value = max((cast("float", row["lag_seconds"]) for row in rows.values()), default=0.0)
    return {"worst_lag_seconds": worst, "lag_stale": any(row["stale"] for row in rows.values())}
