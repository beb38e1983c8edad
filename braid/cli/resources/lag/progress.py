"""The progress of a lease's partition as lines: what is done, rejected and retried, by the group's newest commit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from braid.cli.core.documents import Document, to_document
from braid.cli.core.times import age_text
from braid.kernel.errors import BraidError, NotFound

if TYPE_CHECKING:
    from braid.cli.core.session import Session

_SHOWN: Final = 8  # ranges or records of a kind; JSON has all of them
_LABEL_COLUMNS: Final = 26


async def read_progress(session: "Session", lease: Document) -> Document | None:
    """Asks for the progress of a lease's partition; None where nothing is committed, or no replica knows it."""
    from braid.api.lagmon.v1.lagmon_service_pb2 import GetProgressRequest
    from braid.api.lagmon.v1.progress_pb2 import Progress

    request = GetProgressRequest(
        group=str(lease["group"]),
        cluster=str(lease["cluster"]),
        topic=str(lease["topic"]),
        partition=cast("int", lease["partition"]),
    )
    try:
        return to_document(await session.read("lagmon", "GetProgress", request, Progress))
    except NotFound:
        return None
    except BraidError as error:
        session.terminal.note(f"its progress is not known: {error}")
        return None


def committed_lines(progress: Document, now_ms: int) -> list[str]:
    """A progress as aligned lines. Offsets are ranges, of which both ends belong to it."""
    since = age_text(cast("int", progress["commit_time_ms"]), now_ms)
    rows = [("progress", f"all before offset {progress['committed_offset']} is done, committed {since} ago")]
    if not progress["has_envelope"]:
        rows.append(("beyond it", "not known: the commit says nothing but the offset"))
    for kind, name in (("done", "done beyond it"), ("rejected", "rejected"), ("expired", "expired")):
        if spans := cast("list[Document]", progress[kind]):
            rows.append((name, _listed([_span(each) for each in spans])))
    if tried := cast("list[Document]", progress["retried"]):
        rows.append(("retried", _listed([f"{each['offset']} ({each['attempts']} failed)" for each in tried])))
    if progress["partial"]:
        rows.append(("", "there is more than this commit tells"))
    return [f"{f'{label}:' if label else '':{_LABEL_COLUMNS}}{text}" for label, text in rows]


def _span(span: Document) -> str:
    first, last = span["first"], span["last"]
    return str(first) if first == last else f"{first}-{last}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
