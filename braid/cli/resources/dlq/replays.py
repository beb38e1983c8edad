"""Replay jobs as items to show, and one of them in full."""

from collections.abc import Sequence
from typing import Final

from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.dlq.v1 import replay_pb2
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render_document
from braid.cli.core.session import Session
from braid.cli.core.times import age_text
from braid.cli.errors import nearest
from braid.kernel.errors import NotFound
from braid.kernel.limits.names import PAGE_SIZE_MAX

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
OVER: Final = (
    replay_pb2.REPLAY_STATE_DONE,
    replay_pb2.REPLAY_STATE_CANCELLED,
    replay_pb2.REPLAY_STATE_FAILED,
)
_ORIGIN: Final = {
    False: "where each came from, for the group that gave it up",
    True: "where each came from, for every group",
}


async def list_replays(session: Session, scope: Scope) -> list[Item]:
    """Replay jobs, newest first."""
    return [replay_item(each) for each in await _all_replays(session, scope.stream)]


def replay_item(replay: replay_pb2.Replay) -> Item:
    """The row of a replay."""
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
    """A replay's state, as tables show it."""
    return enum_text(replay_pb2.ReplayState.DESCRIPTOR, status.state).upper()


def progress_text(status: replay_pb2.ReplayStatus) -> str:
    """The progress of a replay, in one line."""
    settled = status.sent + status.skipped
    share = min(1.0, settled / status.matched) if status.matched else 0.0
    filled = int(share * _BAR_COLUMNS)
    bar = "█" * filled + "░" * (_BAR_COLUMNS - filled)
    state = "" if status.state == replay_pb2.REPLAY_STATE_RUNNING else f" {state_text(status)}"
    return f"{bar} {share:4.0%}  {counts_text(status)}, {status.rate_per_s:.0f}/s{state}"


def counts_text(status: replay_pb2.ReplayStatus) -> str:
    """The letters that a replay has sent and skipped so far."""
    extras = ((status.skipped, "skipped"), (status.repeated, "repeated"))
    more = "".join(f", {count:,} {word}" for count, word in extras if count)
    return f"{status.sent:,} of {status.matched:,} sent{more}"


def end_text(status: replay_pb2.ReplayStatus) -> str:
    """The result of a replay."""
    reason = f": {status.reason}" if status.reason else ""
    return f"{state_text(status).lower()}{reason} ({counts_text(status)})"


async def describe_replay(session: Session, name: str, format: Format) -> int:
    """Prints one replay with all its fields. Raises `NotFound`."""
    replay_id = name.removeprefix("replay/")
    try:
        request = dlq_api.GetReplayRequest(id=replay_id)
        replay = await session.read("dlq", "GetReplay", request, replay_pb2.Replay)
    except NotFound as error:
        raise await no_such_replay(session, error, replay_id) from error
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


async def _all_replays(session: Session, stream: str) -> list[replay_pb2.Replay]:
    return await session.pages(
        "dlq",
        "ListReplays",
        lambda token: dlq_api.ListReplaysRequest(stream=stream, page_size=PAGE_SIZE_MAX, page_token=token),
        dlq_api.ListReplaysResponse,
        lambda page: page.replays,
    )


async def no_such_replay(session: Session, error: NotFound, replay_id: str) -> NotFound:
    known = {each.id.lower(): each.id for each in await _all_replays(session, "")}
    close = nearest(replay_id, known)
    remedy = f"did you mean {known[close]}?" if close else "list what there is: braid get replays"
    return NotFound(error.message, remedy=remedy, field=error.field, metadata=error.metadata)


def letters_text(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"
