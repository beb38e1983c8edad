"""Dead letters as items to show, and one of them in full. Shown as text only; changes nothing."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from braid.api.dlq.v1 import dead_letter_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.cli.core.documents import Document, Value, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.limits import CLI_ITEMS_MAX, CLI_LETTER_BYTES_SHOWN
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render, render_document
from braid.cli.core.record_documents import text_or_base64
from braid.cli.core.session import Session
from braid.cli.core.text import byte_lines, printable
from braid.cli.core.times import age_text, clock_text
from braid.kernel.errors import Invalid
from braid.kernel.limits.names import PAGE_SIZE_MAX

COLUMNS: Final = Columns(
    (
        Column("GROUP", shrinks=True),
        Column("LANE"),
        Column("STATE"),
        Column("ERROR", shrinks=True),
        Column("MESSAGE", shrinks=True),
        Column("TRIES"),
        Column("CLUSTER", wide=True),
        Column("ORIGIN", wide=True),
        Column("RECORD-ID", wide=True),
        Column("BYTES", wide=True),
        Column("REPLAYS", wide=True),
    )
)
_STATE_CELL: Final = [column.header for column in COLUMNS.middle].index("STATE")
_LABEL_COLUMNS: Final = 18
_OWN: Final = "braid-dl-"  # headers that say what the fields above them say
_TELLING: Final = ("braid-dl-cut", "braid-dl-last-offset")  # but for these
_NAME_PARTS: Final = 4  # stream, generation, partition, offset


async def list_letters(session: Session, scope: Scope) -> list[Item]:
    """The newest dead letters of a scope, at most `scope.most`."""
    return (await _find_letters(session, scope))[0]


async def get_letters(session: Session, scope: Scope, format: Format) -> int:
    """Prints dead letters, newest first, and whether there are more."""
    items, total, incomplete = await _find_letters(session, scope)
    tables = format in (Format.TABLE, Format.WIDE)
    if not items and tables:
        found = "there are no dead letters"
        session.terminal.note(f"{found} that match" if scope.where or scope.name else found)
        return 0
    exact = scope.name.count("/") == _NAME_PARTS - 1
    narrow = session.terminal.narrow
    text = render(format, COLUMNS, items, session.now_ms, narrow=narrow, listed=not exact)
    session.terminal.print_table(format, text)
    states = [str(item.cells[_STATE_CELL]) for item in items]
    if tables and (counts := counts_text(states)):
        session.terminal.note(f"of those shown: {counts}")
    if total > len(items):
        session.terminal.note(
            f"the newest {len(items):,} of {'at least ' * incomplete}{total:,}; --max 0 shows all, --where chooses"
        )
    return 0


async def describe_letter(session: Session, name: str, format: Format) -> int:
    """Prints one dead letter with all its fields.

    Raises:
        NotFound: there is no such dead letter, or its copy is no longer in the log.
    """
    content = await _read(session, name)
    if format is not Format.TABLE:
        session.terminal.print(render_document(format, letter_document(content)))
        return 0
    session.terminal.print("\n".join(_story(session, content)))
    return 0


def letter_item(letter: dead_letter_pb2.DeadLetter) -> Item:
    """The row of a dead letter."""
    origin = letter.origin
    cells = (
        letter.group,
        origin.lane,
        state_text(letter),
        printable(letter.quarantine or letter.error_class),
        printable(letter.error_message),
        str(letter.attempts),
        letter.cluster,
        f"{origin.cluster}:{origin.topic}/{origin.partition}/{origin.offset}" if origin.topic else "",
        printable(origin.id),
        str(letter.value_bytes),
        str(letter.replays),
    )
    document: Document = {"apiVersion": API_VERSION, "kind": "DeadLetter", **to_document(letter)}
    return Item(letter.name, f"deadletter/{letter.name}", cells, letter.last_failure_ms, document)


def state_text(letter: dead_letter_pb2.DeadLetter) -> str:
    """A letter's state in tables; empty if an older service reports none."""
    if not letter.state:
        return ""
    return enum_text(dead_letter_pb2.DeadLetterState.DESCRIPTOR, letter.state).upper().replace("_", " ")


def counts_text(states: Iterable[str]) -> str:
    """The number of letters in each state; empty if none was ever replayed."""
    counts = Counter(each for each in states if each)
    if counts.keys() <= {"PARKED"}:
        return ""
    return ", ".join(f"{count:,} {state.lower()}" for state, count in sorted(counts.items()))


def letter_document(content: dead_letter_pb2.DeadLetterContent) -> Document:
    """A dead letter in full as plain values, with bytes as `braid consume -o json` writes them."""
    document = letter_item(content.letter).document
    headers: list[Value] = [{"name": each.name, "value": text_or_base64(each.value)} for each in content.headers]
    return {
        **document,
        "key": text_or_base64(content.key if content.HasField("key") else None),
        "value": text_or_base64(content.value if content.HasField("value") else None),
        "headers": headers,
        "traceback": content.traceback,
    }


async def _find_letters(session: Session, scope: Scope) -> tuple[list[Item], int, bool]:
    """Dead letters, how many match in all, and whether this number is a lower bound."""
    if scope.name.count("/") == _NAME_PARTS - 1:
        return [letter_item((await _read(session, scope.name)).letter)], 1, False
    stream = scope.stream or scope.name.partition("/")[0]
    most = scope.most or CLI_ITEMS_MAX
    items: list[Item] = []
    catching_up: set[str] = set()
    token, total, incomplete = "", 0, False
    while True:
        request = dlq_api.ListDeadLettersRequest(
            stream=stream, filter=scope.where, page_size=min(most - len(items), PAGE_SIZE_MAX), page_token=token
        )
        try:
            page = await session.read("dlq", "ListDeadLetters", request, dlq_api.ListDeadLettersResponse)
        except Invalid as error:
            raise pointed(error, scope.where) from error
        items += [letter_item(each) for each in page.letters]
        catching_up.update(page.catching_up)
        token, total, incomplete = page.next_page_token, max(total, page.total), page.total_incomplete
        if not token or len(items) >= most:
            break
    if catching_up:
        clusters = ", ".join(sorted(catching_up))
        session.terminal.note(f"dead letters of {clusters} are still being indexed: some may be missing")
    return items, total, incomplete


async def _read(session: Session, name: str) -> dead_letter_pb2.DeadLetterContent:
    request = dlq_api.GetDeadLetterRequest(name=name)
    return await session.read("dlq", "GetDeadLetter", request, dead_letter_pb2.DeadLetterContent)


def _story(session: Session, content: dead_letter_pb2.DeadLetterContent) -> list[str]:
    letter, origin = content.letter, content.letter.origin
    fields = {
        "name": letter.name,
        "state": state_text(letter).lower(),
        "error": f"{letter.error_class}: {letter.error_message}" if letter.error_class else letter.error_message,
        "quarantined": letter.quarantine,
        "group": letter.group,
        "attempts": str(letter.attempts),
        "first failure": _moment(session, letter.first_failure_ms),
        "last failure": _moment(session, letter.last_failure_ms),
        "replayed": _replayed(letter),
        "record id": origin.id,
        "ingested": _moment(session, origin.ingested_at_ms),
        "it was at": f"{origin.lane} {origin.cluster}:{origin.topic}/{origin.partition}/{origin.offset}",
        "topic id": origin.topic_id,
        "its copy is at": f"{letter.cluster}:{letter.topic}/{letter.partition}/{letter.offset}",
    }
    lines = [f"{label + ':':{_LABEL_COLUMNS}}{printable(text)}" for label, text in fields.items() if text]
    headers = [each for each in content.headers if not each.name.startswith(_OWN) or each.name in _TELLING]
    lines += ["", "Headers:" if headers else "Headers: none"]
    lines += [f"  {printable(each.name)}: {' '.join(byte_lines(each.value, 256))}" for each in headers]
    lines += ["", *_payload("Key", content.key if content.HasField("key") else None, len(content.key))]
    value = content.value if content.HasField("value") else None
    lines += ["", *_payload("Value", value, max(letter.value_bytes, len(content.value)))]
    if content.traceback:
        lines += ["", "Traceback:", *(f"  {line}" for line in printable(content.traceback, "\n").splitlines())]
    lines += ["", f"Replay it:  braid dlq replay --stream {letter.stream} --where '{_only(letter)}' --dry-run"]
    return lines


def _payload(title: str, data: bytes | None, full_bytes: int) -> list[str]:
    if data is None:
        return [f"{title}: none"]
    shown = min(len(data), CLI_LETTER_BYTES_SHOWN)
    size = f"{full_bytes:,} bytes" if shown == full_bytes else f"the first {shown:,} of {full_bytes:,} bytes"
    return [f"{title} ({size}):", *(f"  {line}" for line in byte_lines(data, CLI_LETTER_BYTES_SHOWN))]


def _moment(session: Session, time_ms: int) -> str:
    return f"{clock_text(time_ms, session.now)} ({age_text(time_ms, session.now_ms)} ago)" if time_ms else ""


def _replayed(letter: dead_letter_pb2.DeadLetter) -> str:
    before = f"{letter.replays} times before it failed again" if letter.replays else ""
    since = f"since by {', '.join(letter.replayed_by)}" if letter.replayed_by else ""
    return "; ".join(part for part in (before, since) if part)


def _only(letter: dead_letter_pb2.DeadLetter) -> str:
    """A filter that selects this letter, as far as filters can."""
    return f"id={letter.origin.id}" if letter.origin.id else f"group={letter.group}"


_FIELDS = ("spec.filter", "filter")


def pointed(error: Invalid, where: str) -> Invalid:
    """The error of a filter, named after the flag and with a caret under the place; other errors unchanged.

    Args:
        error: The dlq service's error; `metadata['column']`, counted from 1, is the place.
        where: The filter that was sent.
    """
    if error.field not in _FIELDS:
        return error
    message = error.message
    column = error.metadata.get("column", "")
    if column.isdecimal() and "^" not in message:
        message = f"{message}\n  {where}\n  {'':{int(column) - 1}}^"
    remedy = error.remedy or "for example error=ValueError and group=indexer and time>=2026-11-21T14:03"
    return Invalid(message, field="--where", remedy=remedy, metadata=error.metadata)
