"""The work of `get lag --since`: prints lag and rates over time, as one replica of lagmon kept them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.cli.core.documents import Document, to_document
from braid.cli.core.limits import CLI_HISTORY_ROWS
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render
from braid.cli.core.session import Session
from braid.cli.core.times import age_text, clock_text, parse_duration, parse_time, to_ms
from braid.kernel.errors import Invalid, NotFound

COLUMNS: Final = Columns(
    (
        Column("TIME"),
        Column("SECONDS"),
        Column("RECORDS"),
        Column("IN/S"),
        Column("DONE/S"),
        Column("STATE", shrinks=True),
        Column("SMALLEST", wide=True),
        Column("LAST", wide=True),
        Column("KNOWN", wide=True),
    )
)
# Lengths of rows that read well; `--step` takes others.
_STEPS_MS: Final = tuple(1000 * seconds for seconds in (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400))


class Asked(NamedTuple):
    """The range of the past that is asked for: `--since` and `--step` as typed."""

    since: str
    step: str


def parse_range(session: Session, asked: Asked) -> tuple[int, int]:
    """Parses the beginning of a range that ends now, and the length of its rows. Raises `Invalid`."""
    since_ms = to_ms(parse_time(asked.since, session.now, "--since"))
    if since_ms >= session.now_ms:
        raise Invalid("the range begins in the future", field="--since", remedy="for example 2h (ago)")
    if asked.step:
        return since_ms, parse_duration(asked.step, "--step")
    fitting = (step for step in _STEPS_MS if (session.now_ms - since_ms) // step <= CLI_HISTORY_ROWS)
    return since_ms, next(fitting, _STEPS_MS[-1])


async def get_lag_history(session: Session, scope: lagmon_api.LagFilter, asked: Asked, format: Format) -> int:
    """Prints lag and rates over time.

    Raises:
        Invalid: of a range that cannot be read.
        NotFound: nothing of what is named is kept in the range.
    """
    since_ms, step_ms = parse_range(session, asked)
    answers: list[lagmon_api.ListLagHistoryResponse] = []

    def taken(answer: lagmon_api.ListLagHistoryResponse) -> Sequence[lag_history_pb2.LagHistory]:
        answers.append(answer)
        return answer.histories

    wanted = lagmon_api.LagHistoryFilter(group=scope.group, stream=scope.stream, lane=scope.lane)
    histories = await session.pages(
        "lagmon",
        "ListLagHistory",
        lambda token: lagmon_api.ListLagHistoryRequest(
            filter=wanted, since_ms=since_ms, until_ms=session.now_ms, step_ms=step_ms, page_token=token
        ),
        lagmon_api.ListLagHistoryResponse,
        taken,
    )
    _tell_what_is_missing(session, answers, since_ms, step_ms)
    items = [item for history in histories for item in history_items(history, session, step_ms)]
    if not items and scope.group:
        remedy = "list those that have: braid get lag --since 2h"
        raise NotFound(f"no lag of {scope.group} is kept in that time", remedy=remedy)
    if not items and format in (Format.TABLE, Format.WIDE):
        session.terminal.note("no lag is kept in that time")
        return 0
    session.terminal.print_table(format, render(format, COLUMNS, items, session.now_ms, narrow=session.terminal.narrow))
    return 0


def history_items(history: lag_history_pb2.LagHistory, session: Session, step_ms: int) -> Iterator[Item]:
    """Yields a table row for each row of a history; what is not known is a dash."""
    name = "/".join((history.group, history.stream, history.lane))
    before: lag_history_pb2.LagStep | None = None
    for step in history.steps:
        cells = (
            _clock(step.time_ms, session),
            f"{step.max_lag_seconds:.1f}" if step.HasField("max_lag_seconds") else "",
            f"{step.lag_records:,}" if step.HasField("lag_records") else "",
            f"{step.produced_per_s:,.1f}" if step.HasField("produced_per_s") else "",
            f"{step.done_per_s:,.1f}" if step.HasField("done_per_s") else "",
            step_state(step, before, step_ms),
            f"{step.min_lag_seconds:.1f}" if step.HasField("min_lag_seconds") else "",
            f"{step.lag_seconds:.1f}" if step.HasField("lag_seconds") else "",
            f"{step.known_seconds:.0f}",
        )
        document: Document = {
            "apiVersion": API_VERSION,
            "kind": "LagStep",
            "name": name,
            "group": history.group,
            "stream": history.stream,
            "lane": history.lane,
            **to_document(step),
        }
        yield Item(name, f"lag/{name}", cells, step.time_ms, document)
        before = step


def step_state(step: lag_history_pb2.LagStep, before: lag_history_pb2.LagStep | None, step_ms: int) -> str:
    """The state of a row; `OK` if nothing is wrong. A row says when others are missing before it."""
    missing = step.time_ms - before.time_ms - step_ms if before is not None else 0
    notes = (
        (f"after a gap of {age_text(1, 1 + missing)}" if missing > 0 else "", missing > 0),
        ("clock stepped", step.clock_stepped),
        ("NO MEMBER", step.unattended and step.lag_records > 0),
        ("STALE", step.stale),
        ("unknown", step.unknown),
        ("estimate", step.estimated),
    )
    return ",".join(text for text, applies in notes if applies) or "OK"


def _clock(time_ms: int, session: Session) -> str:
    return clock_text(time_ms, session.now).removesuffix(".000")


def _tell_what_is_missing(
    session: Session, answers: Sequence[lagmon_api.ListLagHistoryResponse], since_ms: int, step_ms: int
) -> None:
    """Says when the replica began to keep, which files are damaged, and that its disk takes nothing."""
    note, answer = session.terminal.note, answers[0]
    if not answer.kept_since_ms:
        note("no replica keeps anything yet: the first row takes 10 seconds")
    elif answer.kept_since_ms - since_ms >= step_ms:
        note(f"lag has been kept since {_clock(answer.kept_since_ms, session)} only")
    if damaged := max(each.damaged for each in answers):
        note(f"{damaged} files are damaged: what they held is missing")
    if silent := sorted({each for some in answers for each in some.silent}):
        note(f"{', '.join(silent)} did not answer: rows that only they keep are missing")
    if answer.trouble:
        note(answer.trouble)
