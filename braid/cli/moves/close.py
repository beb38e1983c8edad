"""`close` ends the drain of a channel that cannot end by itself; the operator names what is given up.

`release` gives up no record, but the order of an ordered stream: a channel is consumed before older ones are drained.
"""

from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from braid.cli.core.execution import ContextOption, DocumentOption, DryRunOption, EndpointOption, execute
from braid.cli.core.kinds import CHANNEL, parse_kind
from braid.cli.core.output import Format, parse_format, render_document
from braid.kernel.errors import NotFound
from braid.kernel.offset_ranges import parse_ranges

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from braid.api.registry.v1.registry_service_pb2 import (
        CloseChannelRequest,
        CloseChannelResponse,
        ReleaseChannelRequest,
    )
    from braid.cli.core.session import Session

M = TypeVar("M", bound="Message")

_CLOSE: Final = """End a drain that cannot end by itself, by naming what is given up.

\b
  braid get channels logs                                  what waits, and for whom
  braid close channel logs/live/1 --dry-run                what closing it would give up
  braid close channel logs/live/1 --accept-loss 0:17-23    offsets 17 to 23 of partition 0
  braid close channel logs/live/1 --accept-loss 0:0-,1:0-  all that a lost cluster holds

Nothing is given up that is not named exactly: a wrong or missing naming is refused with the right one.
"""


_RELEASE: Final = """Let a channel of an ordered stream be consumed although older ones are not drained.

\b
  braid get channels logs             what waits, and for which channel
  braid release channel logs/live/2   go on without the rest of logs/live/1

No record is given up, but their order: what is left of the older channels is handled when they can be read again.
"""
_Type = Annotated[str, typer.Argument(metavar="TYPE", show_default=False)]
_Name = Annotated[str, typer.Argument(metavar="STREAM/LANE/N", show_default=False)]
_Reason = Annotated[str, typer.Option(metavar="TEXT", help="Kept in the stream's history.")]
_FORMATS: Final = (Format.TABLE, Format.JSON, Format.YAML)


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("close", help=_CLOSE)(_close)
    app.command("release", help=_RELEASE)(_release)


def _close(
    type_: _Type,
    name: _Name,
    accept_loss: Annotated[
        str, typer.Option(metavar="PARTITION:FIRST-LAST,…", help="The exact ranges to give up.", show_default=False)
    ] = "",
    reason: _Reason = "",
    dry_run: DryRunOption = False,
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "close", (CHANNEL,))
    format = parse_format(output, _FORMATS)
    ranges = parse_ranges(accept_loss, "--accept-loss")
    from braid.api.registry.v1 import stream_pb2
    from braid.api.registry.v1.registry_service_pb2 import CloseChannelRequest

    named = [stream_pb2.OffsetRange(partition=each.partition, first=each.first, last=each.last) for each in ranges]
    request = CloseChannelRequest(channel=name, accept_loss=named, reason=reason, dry_run=dry_run)
    execute(endpoint, context, lambda session: _close_channel(session, request, format))


def _release(
    type_: _Type,
    name: _Name,
    reason: _Reason = "",
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "release", (CHANNEL,))
    format = parse_format(output, _FORMATS)
    from braid.api.registry.v1.registry_service_pb2 import ReleaseChannelRequest

    request = ReleaseChannelRequest(channel=name, reason=reason)
    execute(endpoint, context, lambda session: _release_channel(session, request, format))


async def _release_channel(session: "Session", request: "ReleaseChannelRequest", format: Format) -> int:
    from braid.api.registry.v1.stream_pb2 import Channel

    name = request.channel
    released = await _changed(session, "ReleaseChannel", request, Channel, f"releasing channel {name}", name)
    _print(session, released, format, f"channel/{released.name} released: it is consumed beside older ones")
    return 0


async def _close_channel(session: "Session", request: "CloseChannelRequest", format: Format) -> int:
    from braid.api.registry.v1.registry_service_pb2 import CloseChannelResponse

    name = request.channel
    closed = await _changed(session, "CloseChannel", request, CloseChannelResponse, f"closing channel {name}", name)
    _print(session, closed, format, _told(closed, request.dry_run))
    return 0


async def _changed(session: "Session", method: str, request: "Message", answer: type[M], doing: str, channel: str) -> M:
    """The registry's answer; the error for an unknown channel names the existing ones."""
    from braid.cli.core.lists import all_channels
    from braid.cli.core.session import missing_among

    try:
        return await session.change("registry", method, request, answer, doing)
    except NotFound as error:
        raise await missing_among(error, channel, all_channels(session)) from error


def _print(session: "Session", answer: "Message", format: Format, told: str) -> None:
    from braid.cli.core.documents import to_document

    session.terminal.print(told if format is Format.TABLE else render_document(format, to_document(answer)))


def _told(closed: "CloseChannelResponse", dry_run: bool) -> str:
    from braid.cli.core.text import offsets_text

    name = closed.channel.name
    given_up = offsets_text(closed.given_up)
    if dry_run:
        flag = f" --accept-loss {given_up}" if given_up else ""
        first = f"channel/{name} would be closed (dry run: nothing was changed); given up: {given_up or 'nothing'}"
        return f"{first}\nif that is what you want: braid close channel {name}{flag}"
    return f"channel/{name} closed; given up: {given_up or 'nothing'}"
