"""The verbs `get`, `describe`, `create` and `delete`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core import kinds
from braid.cli.core.asking import confirm, require_terminal
from braid.cli.core.execution import (
    ContextOption,
    DocumentOption,
    DryRunOption,
    EndpointOption,
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

if TYPE_CHECKING:
    from braid.cli.core.documents import Value

_GET: Final = """List what the mesh has.

\b
  braid get streams                        every stream, and where it is
  braid get channels logs -w               a stream's channels, as they change
  braid get leases --group indexer         who works on what
  braid get clusters -o wide
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

Types, in singular or plural: streams, channels, clusters, groups, members, leases, lag, deadletters, replays,
rejected, events, grants, revocations, tenants, approvals, approvalpolicies.
Lag is BEHIND from a minute on; NO MEMBER says that nobody consumes.
A lag of `~3.1` seconds is an estimate (a group that is not the mesh's), `≥3.1` the least it can be.
"""
_DESCRIBE: Final = """Show one thing in full, what belongs to it, and its latest events.

\b
  braid describe stream logs               its channels, its groups, who holds a drain
  braid describe cluster east
  braid describe group indexer -o json
  braid describe stream logs --at 14:03    as it was then, by its history
  braid describe deadletter logs/1/0/5     why it was given up, and what is in it
  braid describe replay 01KA2B             how far it is
"""
_DELETE: Final = """Delete a stream, cluster, group, tenant or approval policy. Asks for the name, or takes --yes.

\b
  braid delete stream logs                 with every record in it
  braid delete group indexer --yes         with its progress
  braid delete cluster east                only when nothing is on it any more
  braid delete tenant acme                 its principals are in none; its streams stay
  braid delete approvalpolicy careful      nothing that it guarded needs an approval any more
"""
_CREATE_STREAM: Final = """Create a stream: its lanes get their channels on a healthy cluster.

\b
  braid create stream logs --lane live=4 --lane bulk=4
  braid create stream logs --lane live=4 --clusters east,west --retention-hours 72
  braid create stream logs --lane live=4 --dry-run
"""
_CREATE_CLUSTER: Final = """Register a Kafka cluster that runs.

\b
  braid create cluster east --bootstrap 10.0.0.1:9092,10.0.0.2:9092 --zone a
  braid create cluster west --bootstrap kafka.west:9093 --zone b --security-profile west
  braid create cluster east --bootstrap 10.0.0.1:9092 --take-over 01J9Z…     its mesh is gone for good

A cluster carries the mark of its mesh; one of another mesh is refused by that mesh's id. Taking one over deletes
nothing: topics and groups that no history knows are listed by `braid describe cluster`.
"""
_CREATE: Final = """Create a stream, or register a cluster.

\b
  braid create stream logs --lane live=4 --lane bulk=4
  braid create cluster east --bootstrap 10.0.0.1:9092 --zone a
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
        kinds.TENANT,
        kinds.APPROVAL,
        kinds.APPROVAL_POLICY,
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
    ),
    "--where": (kinds.DEADLETTER,),
    "--detail": (kinds.LAG,),
    "--since": (kinds.LAG,),
    "--step": (kinds.LAG,),
    "--max": (kinds.DEADLETTER,),
    "--fetch": (kinds.REJECTED,),
    "--for": (kinds.EVENT,),
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
_ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        metavar="N", show_default=False, help="Copies of each partition; by default three, if there are three brokers."
    ),
]
_RideOut = Annotated[
    float | None,
    typer.Option(
        "--ride-out",
        metavar="SECONDS",
        show_default=False,
        help="How long appends may hang after brokers died before traffic leaves; default: the cluster's.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("get", help=_GET)(_get)
    app.command("describe", help=_DESCRIBE)(_describe)
    app.command("delete", help=_DELETE)(_delete)
    create = typer.Typer(rich_markup_mode=None)
    create.callback(help=_CREATE)(_create)
    for name in ("stream", "streams"):
        create.command(name, help=_CREATE_STREAM, hidden=name.endswith("s"))(_create_stream)
    for name in ("cluster", "clusters"):
        create.command(name, help=_CREATE_CLUSTER, hidden=name.endswith("s"))(_create_cluster)
    app.add_typer(create, name="create")


def _create() -> None:
    """Create a stream, or register a cluster."""


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
    since: Annotated[str, typer.Option(metavar="TIME", help="Lag over time, from then on: 2h (ago), 14:03.")] = "",
    step: Annotated[str, typer.Option(metavar="TIME", help="With --since: the length of a row: 10s, 5m.")] = "",
    for_: Annotated[str, typer.Option("--for", metavar="TYPE/NAME", help="Events of one thing.")] = "",
    status: Annotated[bool, typer.Option("--status", help="With -o json or yaml: add what the mesh reports.")] = False,
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
    given |= {"--since": since, "--step": step}
    _check_flags(kind, given | {"--fetch": str(fetch or ""), "--status": "yes" * status}, most)
    if status and format not in (Format.JSON, Format.YAML):
        raise Invalid("a table shows states of its own", field="--status", remedy="add -o json or -o yaml")
    if kind is kinds.LAG:
        from braid.cli.resources.lag_verb import LagOptions, show_lag

        show_lag(LagOptions(name or group, stream, detail, watch, since, step), format, endpoint, context)
        return
    if kind is kinds.REJECTED:
        _get_rejected(name or group, stream, fetch, format, watch, endpoint, context)
        return
    from braid.cli.resources.dead_letters import get_letters
    from braid.cli.resources.get import get_items, watch_items

    scope = kinds.Scope(name, group, stream, where, CLI_LETTERS_SHOWN if most < 0 else most)
    if kind is kinds.DEADLETTER and not watch:
        execute(endpoint, context, lambda session: get_letters(session, scope, format))
        return
    work = watch_items if watch else get_items
    execute(endpoint, context, lambda session: work(session, kind, scope, format, status))


def _get_rejected(
    group: str, stream: str, fetch: int, format: Format, watch: bool, endpoint: str, context: str
) -> None:
    if watch:
        raise Invalid("rejected records cannot be watched", field="--watch", remedy="leave it out")
    from braid.cli.resources.rejected import get_rejected

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
    if at and kind in (kinds.DEADLETTER, kinds.REPLAY):
        raise Invalid(f"a {kind.singular} is not described as of a moment", field="--at", remedy="leave it out")
    if kind is kinds.DEADLETTER:
        from braid.cli.resources.dead_letters import describe_letter

        execute(endpoint, context, lambda session: describe_letter(session, name, format))
        return
    if kind is kinds.REPLAY:
        from braid.cli.resources.replays import describe_replay

        execute(endpoint, context, lambda session: describe_replay(session, name, format))
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


def _create_stream(
    name: _Name,
    lane: Annotated[
        list[str] | None, typer.Option("--lane", metavar="NAME=PARTITIONS", help="A lane; repeat it for several.")
    ] = None,
    clusters: Annotated[
        str, typer.Option(metavar="NAMES", help="Clusters that may carry the stream, best first; default: all.")
    ] = "",
    replication_factor: _ReplicationFactor = None,
    retention_hours: Annotated[
        int, typer.Option(metavar="HOURS", show_default=False, help="How long records are kept.")
    ] = 0,
    max_record_bytes: Annotated[
        int, typer.Option(metavar="BYTES", show_default=False, help="Size of the largest record, in bytes.")
    ] = 0,
    failover: Annotated[
        str, typer.Option(metavar="MODE", help="What to do when its cluster dies: automatic, propose or off.")
    ] = "",
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Consume a new channel only after the old one is drained.")
    ] = False,
    ride_out_seconds: _RideOut = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="Topic configuration.")
    ] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    format = parse_format(output)
    from braid.cli.resources.create_delete import create_stream, stream_spec

    fields: dict[str, Value] = {
        "replication_factor": _copies(replication_factor),
        "retention_hours": retention_hours,
        "max_record_bytes": max_record_bytes,
        "failover": failover,
        "ordered": ordered,
        **({} if ride_out_seconds is None else {"ride_out_seconds": ride_out_seconds}),
    }
    spec = stream_spec(lane or (), clusters, config or (), fields)
    execute(endpoint, context, lambda session: create_stream(session, name, spec, dry_run, format))


def _copies(declared: int | None) -> int:
    """Converts a number of copies to a spec's value, where 0 is the default. Raises `Invalid` for an explicit 0."""
    if declared == 0:
        remedy = "declare 1 or more, or leave it out for three where a cluster has so many brokers"
        raise Invalid("a stream needs at least one copy", field="--replication-factor", remedy=remedy)
    return declared or 0


def _create_cluster(
    name: _Name,
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT,…", help="Addresses of its brokers.")],
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The zone the cluster is in.")] = "",
    capacity: Annotated[
        int, typer.Option(metavar="PARTITIONS", show_default=False, help="The most partitions the cluster may carry.")
    ] = 0,
    security_profile: Annotated[
        str, typer.Option(metavar="NAME", help="The name of local credentials; credentials are never sent.")
    ] = "",
    topic_prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Prefix of Braid's topics; default `braid.`.")
    ] = "",
    allow_auto_create_topics: Annotated[
        bool, typer.Option("--allow-auto-create-topics", help="Accept that Kafka may create deleted topics again.")
    ] = False,
    health: Annotated[
        list[str] | None,
        typer.Option("--health", metavar="THRESHOLD=NUMBER", help="A health threshold: `braid set health --help`."),
    ] = None,
    take_over: Annotated[
        str, typer.Option(metavar="MESH", help="From the mesh with this id, which is gone for good; or `unmarked`.")
    ] = "",
    dry_run: DryRunOption = False,
    output: OutputOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    format = parse_format(output)
    from braid.api.registry.v1.cluster_pb2 import ClusterSpec
    from braid.cli.resources.cluster_health import change_thresholds
    from braid.cli.resources.create_delete import create_cluster

    spec = ClusterSpec(
        bootstrap=bootstrap,
        zone=zone,
        capacity=capacity,
        security_profile=security_profile,
        topic_prefix=topic_prefix,
        allow_auto_create_topics=allow_auto_create_topics,
    )
    if health:
        change_thresholds(spec.health, health, "--health")
    execute(endpoint, context, lambda session: create_cluster(session, name, spec, take_over, dry_run, format))


def _check_flags(kind: kinds.Kind, given: Mapping[str, str], most: int) -> None:
    for flag, value in {**given, "--max": str(most) if most >= 0 else ""}.items():
        if value and kind not in _TAKERS[flag]:
            known = " or ".join(each.plural for each in _TAKERS[flag])
            raise Invalid(f"{kind.plural} have none", field=flag, remedy=f"it goes with {known}")
