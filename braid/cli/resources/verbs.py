"""The verbs `get`, `describe` and `delete`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import typer

from braid.cli.core import kinds
from braid.cli.core.asking import confirm, require_terminal
from braid.cli.core.execution import (
    ContextOption,
    DocumentOption,
    EndpointOption,
    Job,
    OutputOption,
    YesOption,
    execute,
)
from braid.cli.core.kinds import parse_kind
from braid.cli.core.limits import CLI_LETTERS_SHOWN
from braid.cli.core.output import Format, parse_format
from braid.cli.core.times import parse_time, to_ms
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import CLI_REJECTED_FETCHED_MAX

_GET: Final = """List what the mesh has.

\b
  braid get streams                        every stream, and where it is
  braid get channels logs -w               a stream's channels, as they change
  braid get leases --group indexer         who works on what
  braid get clusters -o wide
  braid get groups --at 14:03              every group as it was then, by its history
  braid get stream logs -o yaml            as `braid apply` takes it; --status adds its state
  braid get lag indexer -w                 how far a group is behind, as it changes
  braid get lag indexer --since 2h         how far it was behind, and what it did; --step 5m
  braid get deadletters --stream logs --where 'error=ValueError'
  braid get rejected indexer               what a group skipped in place
  braid get rejected indexer --fetch 10    and the records themselves
  braid get events --for stream/logs
  braid get grants                         who may do what; as manifests with -o yaml
  braid get revocations                    who is refused, whatever it may do, and why
  braid get tenants                        what each may have, and what it has
  braid get approvals                      what waits for a second person: `braid approve --help`
  braid get alerts -w                      what a person should know of, as it fires and is resolved
  braid get pathways -o wide               which ways records take over streams, and how long

Types, in singular or plural: streams, channels, clusters, groups, members, leases, lag, deadletters, replays,
rejected, events, grants, revocations, tenants, approvals, approvalpolicies, alerts, pathways.
Lag is BEHIND from a minute on; NO MEMBER says that nobody consumes.
A lag of `~3.1` seconds is an estimate, `≥3.1` the least it can be.
"""
_DESCRIBE: Final = """Show one thing in full, what belongs to it, and its latest events.

\b
  braid describe stream logs               its channels, its groups, who holds a drain
  braid describe cluster east
  braid describe group indexer -o json
  braid describe stream logs --at 14:03    as it was then, by its history
  braid describe deadletter logs/1/0/5     why it was given up, and what is in it
  braid describe replay 01KA2B             how far it is
  braid describe tenant acme               where its quotas stand at Kafka
  braid describe alert stream/logs/lag-page/live/indexer      why it fires, and what would help
"""
_DELETE: Final = """Delete a stream, cluster, group, tenant or approval policy. Asks for the name, or takes --yes.

\b
  braid delete stream logs                 with every record in it
  braid delete group indexer --yes         with its progress
  braid delete cluster east                only when nothing is on it any more
  braid delete tenant acme                 its principals are in none; its streams stay
  braid delete approvalpolicy careful      nothing that it guarded needs an approval any more
"""
_GETTABLE: Final = tuple(kind for kind in kinds.KINDS if kind.built)
_DESCRIBABLE: Final = tuple(
    kind
    for kind in _GETTABLE
    if kind
    not in (
        kinds.EVENT,
        kinds.LAG,
        kinds.REJECTED,
        kinds.GRANT,
        kinds.REVOCATION,
        kinds.APPROVAL,
        kinds.APPROVAL_POLICY,
        kinds.PATHWAY,
    )
)
_DELETABLE: Final = (kinds.STREAM, kinds.CLUSTER, kinds.GROUP, kinds.TENANT, kinds.APPROVAL_POLICY)
# Which types a flag of `get` goes with.
_TAKERS: Final[Mapping[str, Sequence[kinds.Kind]]] = {
    "--group": (kinds.MEMBER, kinds.LEASE, kinds.LAG, kinds.REJECTED),
    "--stream": (
        kinds.CHANNEL,
        kinds.GROUP,
        kinds.LEASE,
        kinds.LAG,
        kinds.DEADLETTER,
        kinds.REPLAY,
        kinds.REJECTED,
        kinds.ALERT,
        kinds.PATHWAY,
    ),
    "--where": (kinds.DEADLETTER,),
    "--detail": (kinds.LAG,),
    "--since": (kinds.LAG, kinds.PATHWAY),
    "--step": (kinds.LAG,),
    "--max": (kinds.DEADLETTER,),
    "--fetch": (kinds.REJECTED,),
    "--for": (kinds.EVENT,),
    "--at": (kinds.STREAM, kinds.CLUSTER, kinds.GROUP),
    "--status": (kinds.STREAM, kinds.CLUSTER, kinds.GRANT, kinds.TENANT, kinds.APPROVAL_POLICY),
}

_Type = Annotated[str, typer.Argument(metavar="TYPE", show_default=False)]
_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_OptionalName = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_Fetch = Annotated[
    int,
    typer.Option(
        min=0, max=CLI_REJECTED_FETCHED_MAX, metavar="N", show_default=False, help="Print the first N rejected records."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("get", help=_GET)(_get)
    app.command("describe", help=_DESCRIBE)(_describe)
    app.command("delete", help=_DELETE)(_delete)


def _get(
    type_: _Type,
    name: _OptionalName = "",
    output: OutputOption = "table",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running, and print what changes.")] = False,
    group: Annotated[str, typer.Option(metavar="NAME", help="Only members, leases or lag of this group.")] = "",
    stream: Annotated[str, typer.Option(metavar="NAME", help="Only what belongs to this stream.")] = "",
    where: Annotated[str, typer.Option(metavar="FILTER", help="Only dead letters that match: error=ValueError.")] = "",
    detail: Annotated[str, typer.Option(metavar="HOW", help="Lag by lane, channel or partition.")] = "",
    most: Annotated[
        int, typer.Option("--max", min=-1, metavar="N", show_default=False, help="The newest N dead letters; 0: all.")
    ] = -1,
    fetch: _Fetch = 0,
    since: Annotated[str, typer.Option(metavar="TIME", help="Lag or pathways from then on: 2h (ago), 14:03.")] = "",
    step: Annotated[str, typer.Option(metavar="TIME", help="With --since: the length of a row: 10s, 5m.")] = "",
    for_: Annotated[str, typer.Option("--for", metavar="TYPE/NAME", help="Events of one thing.")] = "",
    status: Annotated[bool, typer.Option("--status", help="With -o json or yaml: add what the mesh reports.")] = False,
    at: Annotated[str, typer.Option(metavar="TIME", help="Streams, clusters or groups as they were: 14:03, 2h.")] = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    kind = parse_kind(type_, "get", _GETTABLE)
    format = parse_format(output)
    if kind is kinds.EVENT:
        from braid.cli.history.verbs import Query, show_events

        show_events(Query(for_ or name, watch=watch), format, endpoint, context)
        return
    given = {"--group": group, "--stream": stream, "--where": where, "--detail": detail, "--for": for_}
    given |= {"--since": since, "--step": step, "--at": at}
    _check_flags(kind, given | {"--fetch": str(fetch or ""), "--status": "yes" * status}, most)
    if status and format not in (Format.JSON, Format.YAML):
        raise Invalid("a table shows states of its own", field="--status", remedy="add -o json or -o yaml")
    if kind is kinds.LAG:
        from braid.cli.resources.lag.verb import LagOptions, show_lag

        show_lag(LagOptions(name or group, stream, detail, watch, since, step), format, endpoint, context)
        return
    if kind is kinds.REJECTED:
        _get_rejected(name or group, stream, fetch, format, watch, endpoint, context)
        return
    scope = kinds.Scope(name, group, stream, where, CLI_LETTERS_SHOWN if most < 0 else most, since)
    execute(endpoint, context, _shown(kind, scope, format, watch=watch, status=status, at=at))


def _shown(kind: kinds.Kind, scope: kinds.Scope, format: Format, *, watch: bool, status: bool, at: str) -> Job:
    """Returns what prints the things of a kind: as they change, as they are, or as they were at a moment."""
    from braid.cli.resources.described_apart import lister
    from braid.cli.resources.get import get_items, watch_items

    if at and (watch or scope.stream):
        raise Invalid("goes with neither --watch nor --stream", field="--at", remedy="leave one of them out")
    at_ms = to_ms(parse_time(at, datetime.now().astimezone(), "--at")) if at else 0
    if watch:
        return lambda session: watch_items(session, kind, scope, format, status)
    if (once := lister(kind)) is not None:
        return lambda session: once(session, scope, format)
    return lambda session: get_items(session, kind, scope, format, status, at_ms)


def _get_rejected(
    group: str, stream: str, fetch: int, format: Format, watch: bool, endpoint: str, context: str
) -> None:
    if watch:
        raise Invalid("rejected records cannot be watched", field="--watch", remedy="leave it out")
    from braid.cli.resources.dlq.rejected import get_rejected

    execute(endpoint, context, lambda session: get_rejected(session, group, stream, fetch, format))


def _describe(
    type_: _Type,
    name: _Name,
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Show a stream, cluster or group as it was: 2026-11-21T14:03:00Z, 14:03, 10m (ago)."
        ),
    ] = "",
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    kind = parse_kind(type_, "describe", _DESCRIBABLE)
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    at_ms = to_ms(parse_time(at, datetime.now().astimezone(), "--at")) if at else 0
    if at and kind in (kinds.DEADLETTER, kinds.REPLAY, kinds.TENANT, kinds.ALERT):
        raise Invalid(f"a {kind.singular} is not described as of a moment", field="--at", remedy="leave it out")
    from braid.cli.resources.described_apart import describer

    if (describe := describer(kind)) is not None:
        execute(endpoint, context, lambda session: describe(session, name, format))
        return
    from braid.cli.resources.describe import describe_item

    execute(endpoint, context, lambda session: describe_item(session, kind, name, format, at_ms))


def _delete(
    type_: _Type,
    name: _Name,
    yes: YesOption = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    kind = parse_kind(type_, "delete", _DELETABLE)
    what, told = f"{kind.singular} {name}", [""]
    require_terminal(yes, f"delete {what}")
    from braid.cli.resources.create_delete import delete_item, find_losses

    if not yes and kind is kinds.STREAM:  # in a session of its own: a person may think for long
        execute(endpoint, context, lambda session: find_losses(session, name, told))
    confirm(what, name, yes, told=told[0])
    execute(endpoint, context, lambda session: delete_item(session, kind, name, warn=yes))


def _check_flags(kind: kinds.Kind, given: Mapping[str, str], most: int) -> None:
    for flag, value in {**given, "--max": str(most) if most >= 0 else ""}.items():
        if value and kind not in _TAKERS[flag]:
            known = " or ".join(each.plural for each in _TAKERS[flag])
            raise Invalid(f"{kind.plural} have none", field=flag, remedy=f"it goes with {known}")
