"""Replay jobs: as items to show, made, followed to their end, paused, resumed and cancelled."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.dlq.v1 import replay_pb2
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render_document, render_table
from braid.cli.core.session import Session
from braid.cli.core.times import age_text
from braid.cli.errors import EXIT_REFUSED, nearest
from braid.cli.resources.filters import pointed
from braid.kernel.errors import BraidError, Invalid, NotFound, Unavailable
from braid.kernel.limits.names import PAGE_SIZE_MAX

E = TypeVar("E", bound=BraidError)

COLUMNS: Final = Columns(
    (
        Column("STREAM", shrinks=True),
        Column("STATE"),
        Column("SENT"),
        Column("FILTER", shrinks=True),
        Column("TO", wide=True),
        Column("SKIPPED", wide=True),
        Column("REPEATED", wide=True),
        Column("RATE", wide=True),
        Column("REASON", wide=True),
    )
)
_BAR_COLUMNS: Final = 30
_OVER: Final = (
    replay_pb2.REPLAY_STATE_DONE,
    replay_pb2.REPLAY_STATE_CANCELLED,
    replay_pb2.REPLAY_STATE_FAILED,
)
_FLAGS: Final = {
    "spec.stream": "--stream",
    "spec.destination": "--to",
    "spec.rate_per_s": "--rate",
    "spec.broadcast": "--broadcast",
}
_ORIGIN: Final = {
    False: "where each came from, for the group that gave it up",
    True: "where each came from, for every group",
}


class Change(NamedTuple):
    """A verb for a replay that exists."""

    method: str
    request: type[dlq_api.PauseReplayRequest] | type[dlq_api.ResumeReplayRequest] | type[dlq_api.CancelReplayRequest]
    done: str


CHANGES: Final[Mapping[str, Change]] = {
    "pause": Change("PauseReplay", dlq_api.PauseReplayRequest, "paused"),
    "resume": Change("ResumeReplay", dlq_api.ResumeReplayRequest, "resumed"),
    "cancel": Change("CancelReplay", dlq_api.CancelReplayRequest, "cancelled"),
}


async def list_replays(session: Session, scope: Scope) -> list[Item]:
    """Replay jobs, newest first."""
    return [replay_item(each) for each in await _all_replays(session, scope.stream)]


async def create_replay(
    session: Session, spec: replay_pb2.ReplaySpec, dry_run: bool, wait: bool, format: Format
) -> int:
    """Creates a replay job, or counts what one would send; with `wait` follows it to its end."""
    request = dlq_api.CreateReplayRequest(spec=spec, dry_run=dry_run)
    try:
        made = await session.change("dlq", "CreateReplay", request, dlq_api.CreateReplayResponse, "creating the replay")
    except Invalid as error:
        raise _flagged(pointed(error, spec.filter)) from error
    except NotFound as error:
        raise _flagged(await _suggesting(session, error, spec)) from error
    replay = made.replay
    if format in (Format.JSON, Format.YAML):
        session.terminal.print(render_document(format, replay_item(replay).document))
    elif format is Format.NAME:
        session.terminal.print(replay_item(replay).reference)
    elif dry_run:
        _print_dry_run(session, made)
    else:
        _print_created(session, replay, wait)
    return await follow_replay(session, replay, format) if wait and not dry_run else 0


async def follow_replay(session: Session, replay: replay_pb2.Replay, format: Format) -> int:
    """Shows how far a replay is until it ends: a bar on a terminal, a line each time it moved otherwise.

    Returns:
        0 when it is done, 4 when it was cancelled or failed.
    """
    told = ""
    try:
        while replay.status.state not in _OVER:
            line = progress_text(replay.status)
            if session.terminal.lively:
                session.terminal.progress(line)
            elif line != told and format in (Format.TABLE, Format.WIDE):
                session.terminal.print(line)
            told = line
            await session.ports.host.clock.sleep(CLI_WATCH_SECONDS)
            replay = await _again(session, replay)
    finally:
        session.terminal.progress("")
        if replay.status.state not in _OVER:
            session.terminal.note(f"replay/{replay.id} goes on without you; stop it: braid dlq cancel {replay.id}")
    if format in (Format.TABLE, Format.WIDE):
        session.terminal.print(f"replay/{replay.id} {end_text(replay.status)}")
    return 0 if replay.status.state == replay_pb2.REPLAY_STATE_DONE else EXIT_REFUSED


async def change_replay(session: Session, verb: str, name: str) -> int:
    """Pauses, resumes or cancels a replay.

    Raises:
        NotFound: there is none of that id; the nearest is named.
        Refused: it is over.
    """
    change, replay_id = CHANGES[verb], name.removeprefix("replay/")
    doing = f"asking replay {replay_id}"
    try:
        replay = await session.change("dlq", change.method, change.request(id=replay_id), replay_pb2.Replay, doing)
    except NotFound as error:
        raise await _no_such_replay(session, error, replay_id) from error
    how = "" if verb == "cancel" else f"; watch it: braid get replays {replay.id} -w"
    session.terminal.print(f"replay/{replay.id} {change.done} ({counts_text(replay.status)}){how}")
    return 0


def replay_item(replay: replay_pb2.Replay) -> Item:
    """A replay's row."""
    spec, status = replay.spec, replay.status
    cells = (
        spec.stream,
        state_text(status),
        f"{status.sent:,}/{status.matched:,}",
        spec.filter or "all",
        spec.destination or ("origin, all groups" if spec.broadcast else "origin"),
        str(status.skipped),
        str(status.repeated),
        f"{status.rate_per_s:.0f}/s",
        status.reason,
    )
    document: Document = {"apiVersion": API_VERSION, "kind": "Replay", **to_document(replay)}
    return Item(replay.id, f"replay/{replay.id}", cells, replay.create_time_ms, document)


def state_text(status: replay_pb2.ReplayStatus) -> str:
    """A replay's state as tables show it."""
    return enum_text(replay_pb2.ReplayState.DESCRIPTOR, status.state).upper()


def progress_text(status: replay_pb2.ReplayStatus) -> str:
    """How far a replay is, on one line."""
    settled = status.sent + status.skipped
    share = min(1.0, settled / status.matched) if status.matched else 0.0
    filled = int(share * _BAR_COLUMNS)
    bar = "█" * filled + "░" * (_BAR_COLUMNS - filled)
    state = "" if status.state == replay_pb2.REPLAY_STATE_RUNNING else f" {state_text(status)}"
    return f"{bar} {share:4.0%}  {counts_text(status)}, {status.rate_per_s:.0f}/s{state}"


def counts_text(status: replay_pb2.ReplayStatus) -> str:
    """What a replay has done so far."""
    extras = ((status.skipped, "skipped"), (status.repeated, "repeated"))
    more = "".join(f", {count:,} {word}" for count, word in extras if count)
    return f"{status.sent:,} of {status.matched:,} sent{more}"


def end_text(status: replay_pb2.ReplayStatus) -> str:
    """How a replay ended."""
    reason = f": {status.reason}" if status.reason else ""
    return f"{state_text(status).lower()}{reason} ({counts_text(status)})"


def _print_created(session: Session, replay: replay_pb2.Replay, wait: bool) -> None:
    matched = f"for {_letters(replay.status.matched)}"
    watch = "" if wait else f"; watch it: braid get replays {replay.id} -w"
    session.terminal.print(f"replay/{replay.id} created {matched}{watch}")


def _print_dry_run(session: Session, made: dlq_api.CreateReplayResponse) -> None:
    from braid.cli.resources import dead_letters

    status = made.replay.status
    where = made.replay.spec.destination or "the lane each came from"
    lines = [f"{_letters(status.matched)} would be sent to {where} (dry run: nothing was changed)"]
    if status.skipped:
        lines.append(f"{status.skipped:,} would be skipped{f': {status.reason}' if status.reason else ''}")
    if made.examples:
        items = [dead_letters.letter_item(each) for each in made.examples]
        lines += ["", render_table(dead_letters.COLUMNS, items, session.now_ms, wide=False)]
    session.terminal.print("\n".join(lines))


async def describe_replay(session: Session, name: str, format: Format) -> int:
    """Prints one replay. Raises `NotFound`."""
    replay_id = name.removeprefix("replay/")
    try:
        request = dlq_api.GetReplayRequest(id=replay_id)
        replay = await session.read("dlq", "GetReplay", request, replay_pb2.Replay)
    except NotFound as error:
        raise await _no_such_replay(session, error, replay_id) from error
    if format is not Format.TABLE:
        session.terminal.print(render_document(format, replay_item(replay).document))
        return 0
    session.terminal.print("\n".join(_story(session, replay)))
    return 0


def _story(session: Session, replay: replay_pb2.Replay) -> list[str]:
    spec, status = replay.spec, replay.status
    fields = {
        "id": replay.id,
        "age": age_text(replay.create_time_ms, session.now_ms),
        "stream": spec.stream,
        "filter": spec.filter or "all",
        "to": spec.destination or _ORIGIN[spec.broadcast],
        "rate": f"{spec.rate_per_s:g}/s at most" if spec.rate_per_s else "as fast as it goes",
        "state": state_text(status),
        "reason": status.reason,
        "progress": progress_text(status),
        "ended": f"{age_text(status.end_time_ms, session.now_ms)} ago" if status.end_time_ms else "",
    }
    lines = [f"{label + ':':12}{text}" for label, text in fields.items() if text]
    verbs: Sequence[str] = ()
    if status.state == replay_pb2.REPLAY_STATE_RUNNING:
        verbs = ("pause", "cancel")
    elif status.state == replay_pb2.REPLAY_STATE_PAUSED:
        verbs = ("resume", "cancel")
    return [*lines, "", f"braid events --for replay/{replay.id}", *(f"braid dlq {verb} {replay.id}" for verb in verbs)]


async def _again(session: Session, replay: replay_pb2.Replay) -> replay_pb2.Replay:
    """The replay as it is now; as it was while the service cannot be reached."""
    try:
        return await session.read("dlq", "GetReplay", dlq_api.GetReplayRequest(id=replay.id), replay_pb2.Replay)
    except Unavailable as error:  # the job is a history: another leader goes on with it
        session.terminal.progress(f"waiting: {error.message}")
        return replay


async def _all_replays(session: Session, stream: str) -> list[replay_pb2.Replay]:
    return await session.pages(
        "dlq",
        "ListReplays",
        lambda token: dlq_api.ListReplaysRequest(stream=stream, page_size=PAGE_SIZE_MAX, page_token=token),
        dlq_api.ListReplaysResponse,
        lambda page: page.replays,
    )


async def _no_such_replay(session: Session, error: NotFound, replay_id: str) -> NotFound:
    known = {each.id.lower(): each.id for each in await _all_replays(session, "")}
    close = nearest(replay_id, known)
    remedy = f"did you mean {known[close]}?" if close else "list what there is: braid get replays"
    return NotFound(error.message, remedy=remedy, field=error.field, metadata=error.metadata)


async def _suggesting(session: Session, error: NotFound, spec: replay_pb2.ReplaySpec) -> NotFound:
    """The error with the stream or lane that was meant, as far as that can be told."""
    from braid.cli.core.lists import all_streams

    streams = await all_streams(session)
    named = spec.stream if error.field == "spec.stream" else spec.destination.partition("/")[0]
    close = nearest(named, [each.name for each in streams])
    remedy = f"did you mean {close}?" if close and close != named else error.remedy
    return NotFound(error.message, remedy=remedy, field=error.field, metadata=error.metadata)


def _flagged(error: E) -> E:
    """The error with its field named as it was typed."""
    error.field = _FLAGS.get(error.field, error.field)
    return error


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"
