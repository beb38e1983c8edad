"""`close`: ends the drain of a channel that cannot end by itself, by naming what is given up."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.execution import ContextOption, DryRunOption, EndpointOption, execute
from braid.cli.kinds import CHANNEL, parse_kind
from braid.cli.output import Format, parse_format, render_document
from braid.kernel.errors import NotFound
from braid.kernel.offset_ranges import parse_ranges

if TYPE_CHECKING:
    from braid.api.registry.v1.registry_service_pb2 import CloseChannelRequest, CloseChannelResponse
    from braid.cli.session import Session

_CLOSE: Final = """End a drain that cannot end by itself, by naming what is given up.

\b
  braid get channels logs                                  what waits, and for whom
  braid close channel logs/live/1 --dry-run                what closing it would give up
  braid close channel logs/live/1 --accept-loss 0:17-23    offsets 17 to 23 of partition 0
  braid close channel logs/live/1 --accept-loss 0:0-,1:0-  all that a lost cluster holds

Nothing is given up that is not named exactly: a wrong or missing naming is refused with the right one.
"""


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("close", help=_CLOSE)(_close)


def _close(
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="STREAM/LANE/N", show_default=False)],
    accept_loss: Annotated[
        str, typer.Option(metavar="PARTITION:FIRST-LAST,…", help="What is given up, in full.", show_default=False)
    ] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Kept in the stream's history.")] = "",
    dry_run: DryRunOption = False,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml.")] = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "close", (CHANNEL,))
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    ranges = parse_ranges(accept_loss, "--accept-loss")
    from braid.api.registry.v1 import stream_pb2
    from braid.api.registry.v1.registry_service_pb2 import CloseChannelRequest

    named = [stream_pb2.OffsetRange(partition=each.partition, first=each.first, last=each.last) for each in ranges]
    request = CloseChannelRequest(channel=name, accept_loss=named, reason=reason, dry_run=dry_run)
    execute(endpoint, context, lambda session: _close_channel(session, request, format))


async def _close_channel(session: "Session", request: "CloseChannelRequest", format: Format) -> int:
    from braid.api.registry.v1.registry_service_pb2 import CloseChannelResponse
    from braid.cli.documents import to_document
    from braid.cli.listing import all_channels
    from braid.cli.session import missing

    name = request.channel
    try:
        closed = await session.change(
            "registry", "CloseChannel", request, CloseChannelResponse, f"closing channel {name}"
        )
    except NotFound as error:
        raise missing(error, name, [each.name for each in await all_channels(session)]) from error
    if format is Format.TABLE:
        session.terminal.print(_told(closed, request.dry_run))
    else:
        session.terminal.print(render_document(format, to_document(closed)))
    return 0


def _told(closed: "CloseChannelResponse", dry_run: bool) -> str:
    from braid.cli.offsets import offsets_text

    name = closed.channel.name
    given_up = offsets_text(closed.given_up)
    if dry_run:
        flag = f" --accept-loss {given_up}" if given_up else ""
        first = f"channel/{name} would be closed (dry run: nothing was changed); given up: {given_up or 'nothing'}"
        return f"{first}\nif that is what you want: braid close channel {name}{flag}"
    return f"channel/{name} closed; given up: {given_up or 'nothing'}"
