"""Reads of dlq: dead letters by error, one dead letter in full, and replays."""

from collections.abc import Iterable, Mapping

from braid.api.dlq.v1 import dead_letter_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.rpc.documents import Document, Value, to_document
from console.server.limits import LETTER_TEXT_BYTES_MAX, LETTERS_MAX, SLOW_POLL_SECONDS
from console.server.live.parts import Content, Single, Table
from console.server.reads.listing import listing
from console.server.reads.reader import Memo, Reader
from console.server.reads.view import Params, Read

DLQ = "dlq"
_PARKED = (dead_letter_pb2.DEAD_LETTER_STATE_PARKED, dead_letter_pb2.DEAD_LETTER_STATE_PARKED_AGAIN)


def letters() -> Read:
    """The newest dead letters, and the same by error and handler."""
    memo = Memo()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        last: list[api.ListDeadLettersResponse] = []

        def items(page: api.ListDeadLettersResponse) -> list[dead_letter_pb2.DeadLetter]:
            last[:] = [page]
            return list(page.letters)

        found, more = await reader.pages(
            DLQ,
            "ListDeadLetters",
            api.ListDeadLettersRequest(
                stream=params.get("stream", ""), filter=params.get("filter", ""), page_size=LETTERS_MAX
            ),
            api.ListDeadLettersResponse,
            items,
            LETTERS_MAX,
        )
        behind: list[Value] = list(last[0].catching_up)
        summary: Document = {
            "total": last[0].total,
            "total_incomplete": last[0].total_incomplete,
            "catching_up": behind,
        }
        table = memo.table(found, lambda each: each.name, more)
        return {"letters": table, "kinds": Table(kinds(found), more), "summary": Single(summary)}

    return Read(("letters", "kinds", "summary"), take, 2.0)


def kinds(letters: Iterable[dead_letter_pb2.DeadLetter]) -> dict[str, Document]:
    """Dead letters by error and handler, newest first within each: how many, since when, and an example."""
    found: dict[str, list[dead_letter_pb2.DeadLetter]] = {}
    for each in letters:
        key = "/".join((each.stream, each.origin.lane, each.group, each.error_class or each.quarantine))
        found.setdefault(key, []).append(each)
    return {key: _kind(several) for key, several in found.items()}


def _kind(letters: list[dead_letter_pb2.DeadLetter]) -> Document:
    newest = letters[0]
    return {
        "error_class": newest.error_class or newest.quarantine,
        "group": newest.group,
        "stream": newest.stream,
        "lane": newest.origin.lane,
        "count": len(letters),
        "first_failure_ms": min(each.first_failure_ms for each in letters),
        "last_failure_ms": max(each.last_failure_ms for each in letters),
        "parked": sum(each.state in _PARKED for each in letters),
        "example": newest.name,
    }


def letter() -> Read:
    """One dead letter in full, read from its cluster now and then: it never changes but in its state."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = api.GetDeadLetterRequest(name=params["name"])
        found = await reader.one(DLQ, "GetDeadLetter", request, dead_letter_pb2.DeadLetterContent)
        return {"letter": Single(letter_document(found))}

    return Read(("letter",), take, SLOW_POLL_SECONDS)


def letter_document(content: dead_letter_pb2.DeadLetterContent) -> Document:
    """A dead letter in full: bytes as hexadecimal, and as text where they are text."""
    found = to_document(content)
    cut = False
    for name in ("key", "value"):
        if content.HasField(name):
            data: bytes = getattr(content, name)
            cut = cut or len(data) > LETTER_TEXT_BYTES_MAX
            found |= _bytes(name, data[:LETTER_TEXT_BYTES_MAX])
    headers: list[Value] = [{"name": each.name, **_bytes("value", each.value)} for each in content.headers]
    whole = content.letter.value_bytes <= len(content.value)
    return {**found, "headers": headers, "truncated": cut or not whole}


def _bytes(name: str, data: bytes) -> Document:
    try:
        return {name: data.hex(), f"{name}_text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: data.hex()}


def replays() -> Read:
    """Replays, newest first; of one stream where the page names it."""
    return listing(
        "replays",
        DLQ,
        "ListReplays",
        lambda params: api.ListReplaysRequest(stream=params.get("stream", "")),
        api.ListReplaysResponse,
        lambda page: page.replays,
        lambda each: each.id,
        most=LETTERS_MAX,
    )
