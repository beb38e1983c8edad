"""The verbs `grant`, `revoke`, `approve` and `can-i`, about rights. `braid get grants` lists grants."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.asking import require_terminal
from braid.cli.core.execution import ContextOption, DryRunOption, EndpointOption, YesOption, execute
from braid.cli.core.output import Format, parse_format
from braid.cli.core.times import parse_duration, parse_end, to_ms
from braid.kernel.access.grants import check_principal
from braid.kernel.access.roles import Resource, Role, check_scope
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.kernel.access.grants import Grant

_GRANT: Final = """Give a principal a role, on one thing, on all that begin so, or on the whole mesh.

\b
  braid grant producer --to spiffe://braid.local/app/orders --on stream/orders
  braid grant consumer --to spiffe://braid.local/app/billing --on stream/orders
  braid grant consumer --to spiffe://braid.local/app/billing --on group/billing
  braid grant stream-owner --to spiffe://braid.local/user/ann --on 'stream/pay-*'
  braid grant operator --to spiffe://braid.local/user/bob --for 8h --reason 'on call'
  braid get grants                                        what there is

Roles: viewer, producer, consumer, operator, stream-owner, admin. A member needs consumer on its group and on each
stream. A grant again, with another end or reason, replaces the first. `braid get grants -o yaml` prints manifests.
"""
_REVOKE: Final = """Take a role back. Open streams that it allowed end within seconds.

\b
  braid revoke producer --from spiffe://braid.local/app/orders --on stream/orders
  braid revoke admin --from spiffe://braid.local/user/ann --reason 'left the team'
"""
_APPROVE: Final = """Approve or refuse another person's request. It takes the right that the request itself takes.

\b
  braid get approvals                                     what waits, and for how long
  braid approve 01J9Z…                                    shows it, and asks
  braid approve 01J9Z… --yes --reason 'ticket 17'
  braid approve 01J9Z… --refuse --reason 'still in use'   also takes an approval back

Policies say what needs a second person: `braid apply -f` a manifest of kind ApprovalPolicy. The person who asked
repeats the same command once it is approved. An approval serves once, for the same request about the same thing.
"""
_CAN_I: Final = """Tell whether something is allowed, and why. Exit code 0 for yes, 1 for no.

\b
  braid can-i produce stream orders
  braid can-i move stream logs --as spiffe://braid.local/user/bob
  braid can-i consume group billing --as spiffe://braid.local/app/billing
  braid can-i create cluster                              any of them
  braid can-i grant mesh

Verbs are those of the command line (move, create, cordon, freeze, …), and view, produce, consume, inspect, operate,
change and grant. About others only those may ask who may view the mesh.
"""
_Role = Annotated[str, typer.Argument(metavar="ROLE", show_default=False)]
_On = Annotated[str, typer.Option(metavar="TYPE/NAME", help="stream/logs, group/g, cluster/c; else the whole mesh.")]
_Reason = Annotated[str, typer.Option(metavar="TEXT", help="A reason, kept with the grant.")]


def register(app: typer.Typer) -> None:
    """Adds the access verbs to the application."""
    app.command("grant", help=_GRANT)(_grant)
    app.command("revoke", help=_REVOKE)(_revoke)
    app.command("approve", help=_APPROVE)(_approve)
    app.command("can-i", help=_CAN_I)(_can_i)


def _grant(
    role: _Role,
    to: Annotated[str, typer.Option(metavar="PRINCIPAL", help="spiffe://DOMAIN/PATH or dns:NAME.", show_default=False)],
    on: _On = "",
    lasting: Annotated[
        str, typer.Option("--for", metavar="TIME", help="The grant ends after this time: 30m, 8h, 7d.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="It ends then: 2026-12-01T18:00, 18:00.")] = "",
    reason: _Reason = "",
    dry_run: DryRunOption = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    if lasting and until:
        raise Invalid("a grant ends after a time or at a time", field="--until", remedy="leave one of them out")
    grant = _typed(role, to, on, reason, "--to")
    lasting_ms = parse_duration(lasting, "--for") if lasting else 0
    expire_ms = to_ms(parse_end(until, datetime.now().astimezone(), "--until")) if until else 0
    from braid.cli.access.grants import give

    execute(endpoint, context, lambda session: give(session, grant, expire_ms, lasting_ms, dry_run))


def _revoke(
    role: _Role,
    from_: Annotated[
        str, typer.Option("--from", metavar="PRINCIPAL", help="spiffe://DOMAIN/PATH or dns:NAME.", show_default=False)
    ],
    on: _On = "",
    reason: _Reason = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    grant = _typed(role, from_, on, reason, "--from")
    from braid.cli.access.grants import take

    execute(endpoint, context, lambda session: take(session, grant))


def _approve(
    id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it, or take an approval back.")] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="A reason, kept with the decision.")] = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    id = id.removeprefix("approval/")  # as `braid get approvals -o name` prints it
    if not yes and not dry_run:
        require_terminal(yes, f"decide on {id}")
    from braid.cli.access.approving import decide

    execute(endpoint, context, lambda session: decide(session, id, refuse, reason, dry_run, yes))


def _can_i(
    verb: Annotated[str, typer.Argument(metavar="VERB", show_default=False)],
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)] = "",
    as_: Annotated[
        str, typer.Option("--as", metavar="PRINCIPAL", help="Ask for this principal instead of yourself.")
    ] = "",
    output: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml.")] = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    principal = check_principal(as_, "--as") if as_ else ""
    from braid.cli.access.grants import explain

    execute(endpoint, context, lambda session: explain(session, verb, type_, name, principal, format))


def _typed(role: str, principal: str, on: str, reason: str, field: str) -> "Grant":
    """The grant that the arguments describe. Raises `Invalid`."""
    from braid.kernel.access.grants import Grant

    known, resource = Role.parse(role, "ROLE"), Resource.parse(on, "--on")
    check_scope(known, resource, "--on")
    return Grant(check_principal(principal, field), known, resource, reason=reason)
