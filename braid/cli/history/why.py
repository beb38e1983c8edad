"""`why`: explains a lease's placement from the histories."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, DocumentOption, EndpointOption, execute
from braid.cli.core.kinds import LEASE, parse_kind
from braid.cli.core.output import Format, parse_format, render_document, wrapped
from braid.cli.core.times import age_text, clock_text, parse_time, to_ms
from braid.kernel.errors import Invalid
from braid.kernel.ids import LeaseId

if TYPE_CHECKING:
    from braid.api.assigner.v1.assigner_service_pb2 import ExplainLeaseResponse
    from braid.cli.core.session import Session

_WHY: Final = """Explain why a member holds a lease, step by step, from the histories.

\b
  braid why lease logs/live/1/3
  braid why lease logs/live/1/3 --at 14:03         why it was where it was
  braid why lease logs/live/1/3 --group indexer    when several groups have it
"""
_TEXT_COLUMNS: Final = 66


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("why", help=_WHY)(_why)


def _why(
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    group: Annotated[str, typer.Option(metavar="NAME", help="The group of the lease.")] = "",
    at: Annotated[
        str, typer.Option(metavar="TIME", help="At a past moment: 2026-11-21T14:03:00Z, 14:03, 10m (ago).")
    ] = "",
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "why", (LEASE,))
    check_lease(name)
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    at_ms = to_ms(parse_time(at, datetime.now().astimezone(), "--at")) if at else 0
    execute(endpoint, context, lambda session: _explain(session, name, group, at_ms, format))


async def _explain(session: "Session", lease: str, group: str, at_ms: int, format: Format) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import ExplainLeaseRequest, ExplainLeaseResponse
    from braid.cli.core.documents import to_document

    request = ExplainLeaseRequest(lease=lease, group=group, at_ms=at_ms)
    found = await session.read("assigner", "ExplainLease", request, ExplainLeaseResponse)
    if format is Format.TABLE:
        session.terminal.print(_story(session, found))
    else:
        session.terminal.print(render_document(format, to_document(found)))
    return 0


def check_lease(name: str) -> None:
    """Raises `Invalid` if the text is no name of a lease."""
    try:
        LeaseId.parse(name)
    except Invalid as error:
        remedy = "write STREAM/LANE/GENERATION/PARTITION; list them: braid get leases"
        raise Invalid(f"{name!r} is not a lease", field="NAME", remedy=remedy) from error


def _story(session: "Session", found: "ExplainLeaseResponse") -> str:
    lease = found.lease
    holder = lease.member_client_id or lease.member
    state = f"held by {holder} ({lease.member})" if lease.member else "free"
    since = f" for {age_text(lease.since_ms, session.now_ms)}" if lease.since_ms else ""
    lines = [f"{lease.name} in group {lease.group}: {state}{since}", ""]
    for reason in found.reasons:
        time = clock_text(reason.metadata.time_ms, session.now)
        first, *rest = wrapped(reason.text, _TEXT_COLUMNS, session.terminal.narrow)
        lines += [f"{time}  {first}", *(f"{'':{len(time)}}  {each}" for each in rest)]
    if not found.reasons:
        lines.append("Nothing is recorded of it yet.")
    if found.kept_from_sequence > 1:
        lines += ["", f"Steps before event {found.kept_from_sequence} of group {lease.group} are not kept."]
    return "\n".join(lines)
