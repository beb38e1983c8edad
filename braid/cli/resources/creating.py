"""The verb `create`: streams and clusters from flags."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, DryRunOption, EndpointOption, OutputOption, execute
from braid.cli.core.output import parse_format
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.cli.core.documents import Value

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

_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
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
    """Adds the verb to the application."""
    create = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
    create.callback(help=_CREATE)(_create)
    for name in ("stream", "streams"):
        create.command(name, help=_CREATE_STREAM, hidden=name.endswith("s"))(_create_stream)
    for name in ("cluster", "clusters"):
        create.command(name, help=_CREATE_CLUSTER, hidden=name.endswith("s"))(_create_cluster)
    app.add_typer(create, name="create")


def _create() -> None:
    """Create a stream, or register a cluster."""


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
    from braid.cli.resources.clusters.health import change_thresholds
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
