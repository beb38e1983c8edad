"""The work of `dlq replay` and its sub-commands: creates, follows, pauses, resumes and cancels replay jobs."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.dlq.v1 import replay_pb2
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.cli.core.output import Format, render_document, render_table
from braid.cli.core.session import Session
from braid.cli.errors import EXIT_REFUSED, nearest
from braid.cli.resources.dlq.dead_letters import pointed
from braid.cli.resources.dlq.replays import (
    OVER,
    counts_text,
    end_text,
    letters_text,
    no_such_replay,
    progress_text,
    replay_item,
)
from braid.kernel.errors import BraidError, Invalid, NotFound, Unavailable

E = TypeVar("E", bound=BraidError)


_FLAGS: Final = {
    "spec.stream": "--stream",
    "spec.destination": "--to",
    "spec.rate_per_s": "--rate",
    "spec.broadcast": "--broadcast",
}


class Change(NamedTuple):
    """A verb that changes an existing replay."""

    method: str
    request: type[dlq_api.PauseReplayRequest] | type[dlq_api.ResumeReplayRequest] | type[dlq_api.CancelReplayRequest]
    done: str


CHANGES: Final[Mapping[str, Change]] = {
    "pause": Change("PauseReplay", dlq_api.PauseReplayRequest, "paused"),
    "resume": Change("ResumeReplay", dlq_api.ResumeReplayRequest, "resumed"),
    "cancel": Change("CancelReplay", dlq_api.CancelReplayRequest, "cancelled"),
}


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
    """Shows a replay's progress until it ends: a bar on a terminal, otherwise a line per change.

    Returns:
        0 if it finished, 4 if it was cancelled or failed.
    """
    told = ""
    try:
        while replay.status.state not in OVER:
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
        if replay.status.state not in OVER:
            session.terminal.note(
                f"replay/{replay.id} continues in the background; stop it: braid dlq cancel {replay.id}"
            )
    if format in (Format.TABLE, Format.WIDE):
        session.terminal.print(f"replay/{replay.id} {end_text(replay.status)}")
    return 0 if replay.status.state == replay_pb2.REPLAY_STATE_DONE else EXIT_REFUSED


async def change_replay(session: Session, verb: str, name: str) -> int:
    """Pauses, resumes or cancels a replay.

    Raises:
        NotFound: there is no such replay; the nearest one is named.
        Refused: it has ended.
    """
    change, replay_id = CHANGES[verb], name.removeprefix("replay/")
    doing = f"asking replay {replay_id}"
    try:
        replay = await session.change("dlq", change.method, change.request(id=replay_id), replay_pb2.Replay, doing)
    except NotFound as error:
        raise await no_such_replay(session, error, replay_id) from error
    how = "" if verb == "cancel" else f"; watch it: braid get replays {replay.id} -w"
    session.terminal.print(f"replay/{replay.id} {change.done} ({counts_text(replay.status)}){how}")
    return 0


def _print_created(session: Session, replay: replay_pb2.Replay, wait: bool) -> None:
    matched = f"for {letters_text(replay.status.matched)}"
    watch = "" if wait else f"; watch it: braid get replays {replay.id} -w"
    session.terminal.print(f"replay/{replay.id} created {matched}{watch}")


def _print_dry_run(session: Session, made: dlq_api.CreateReplayResponse) -> None:
    from braid.cli.resources.dlq import dead_letters

    status = made.replay.status
    where = made.replay.spec.destination or "the lane each came from"
    lines = [f"{letters_text(status.matched)} would be sent to {where} (dry run: nothing was changed)"]
    if status.skipped:
        lines.append(f"{status.skipped:,} would be skipped{f': {status.reason}' if status.reason else ''}")
    if made.examples:
        items = [dead_letters.letter_item(each) for each in made.examples]
        narrow = session.terminal.narrow
        lines += ["", render_table(dead_letters.COLUMNS, items, session.now_ms, wide=False, narrow=narrow)]
    session.terminal.print("\n".join(lines))


async def _again(session: Session, replay: replay_pb2.Replay) -> replay_pb2.Replay:
    """The replay as it is now; its last known state while the service cannot be reached."""
    try:
        return await session.read("dlq", "GetReplay", dlq_api.GetReplayRequest(id=replay.id), replay_pb2.Replay)
    except Unavailable as error:  # the job is a history: another leader goes on with it
        session.terminal.progress(f"waiting: {error.message}")
        return replay


async def _suggesting(session: Session, error: NotFound, spec: replay_pb2.ReplaySpec) -> NotFound:
    """The error with the stream or lane that was probably meant."""
    from braid.cli.core.lists import all_streams

    streams = await all_streams(session)
    named = spec.stream if error.field == "spec.stream" else spec.destination.partition("/")[0]
    close = nearest(named, [each.name for each in streams])
    remedy = f"did you mean {close}?" if close and close != named else error.remedy
    return NotFound(error.message, remedy=remedy, field=error.field, metadata=error.metadata)


def _flagged(error: E) -> E:
    """The error with its field named after the typed flag."""
    error.field = _FLAGS.get(error.field, error.field)
    return error
