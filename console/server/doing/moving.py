"""Actions on streams and clusters: move traffic, and keep it from a cluster."""

from typing import Final, cast

from google.protobuf.message import Message

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import Invalid
from console.server.doing.action import Action, Call, options
from console.server.doing.arguments import FLAG, LIST, NUMBER, TEXT, Argument, Given

_DRY_RUN: Final = "--dry-run"


def _move_call(given: Given) -> Call:
    to, away, spread = given.text("to"), given.text("away_from"), given.items("spread")
    if sum(map(bool, (to, away, spread))) != 1:
        raise Invalid("one of to, away_from and spread is needed", field="to", remedy="name the cluster to move to")
    if given.number("percent") is not None and not to:
        raise Invalid("goes with `to` alone", field="percent", remedy="name the cluster that gets the share")
    partitions = _partitions(given)
    if partitions and not given.items("lanes"):
        raise Invalid("the partitions of which lane?", field="partitions", remedy="name lanes")
    request = api.MoveStreamRequest(
        stream=given.text("stream"),
        lanes=given.items("lanes"),
        to_cluster=to,
        away_from_cluster=away,
        spread=[_share(each) for each in spread],
        percent=given.number("percent"),
        partitions=partitions,
        reason=given.text("reason"),
        dry_run=given.dry_run,
    )
    return Call("registry", "MoveStream", request, api.MoveStreamResponse)


def _partitions(given: Given) -> int:
    number = given.number("partitions") or 0
    if not (float(number).is_integer() and 0 <= number < 1 << 31):
        raise Invalid("is no number of partitions", field="partitions", remedy="write a whole number")
    return int(number)


def _share(text: str) -> api.ClusterShare:
    cluster, equals, weight = text.partition("=")
    try:
        number = float(weight)
    except ValueError:
        number = 0.0
    if not (cluster and equals and 0.0 < number < float("inf")):
        raise Invalid(f"{text[:100]!r} is not CLUSTER=WEIGHT", field="spread", remedy="for example east=3")
    return api.ClusterShare(cluster=cluster, weight=number)


def _move_command(given: Given) -> list[str]:
    percent, partitions = given.number("percent"), given.number("partitions")
    return [
        *("move", "stream", given.text("stream")),
        *options([("--lane", lane) for lane in given.items("lanes")]),
        *options([("--to", given.text("to")), ("--away-from", given.text("away_from"))]),
        *options([("--spread", ",".join(given.items("spread")))]),
        *options([("--percent", "" if percent is None else f"{percent:g}")]),
        *options([("--partitions", f"{partitions:.0f}" if partitions else "")]),
        *options([("--reason", given.text("reason"))]),
        *([_DRY_RUN] if given.dry_run else []),
    ]


def _moved(given: Given, answer: Message) -> str:
    moves = cast("api.MoveStreamResponse", answer).moves
    name = f"stream/{given.text('stream')}"
    if not moves:
        return f"{name} unchanged: its traffic is there already"
    lanes = ", ".join(f"{each.lane} to {each.to_cluster}" for each in moves)
    return f"{name} {'would move' if given.dry_run else 'moved'}: {lanes}"


def _cordon_call(given: Given) -> Call:
    request = api.CordonClusterRequest(name=given.text("cluster"), cordoned=not given.flag("undo"))
    return Call("registry", "CordonCluster", request, cluster_pb2.Cluster)


MOVE: Final = Action(
    "move",
    "Send a stream's new records to another cluster.",
    (
        Argument("stream", TEXT, "the stream's name", required=True),
        Argument("lanes", LIST, "only these lanes; empty for all"),
        Argument("to", TEXT, "the cluster to move to"),
        Argument("away_from", TEXT, "leave this cluster for the best other one"),
        Argument("spread", LIST, "use exactly these clusters, each as CLUSTER=WEIGHT"),
        Argument("percent", NUMBER, "with `to`: its share of a hundred records"),
        Argument("partitions", NUMBER, "partitions of the new channels of the named lanes"),
        Argument("reason", TEXT, "kept in the stream's history"),
    ),
    _move_call,
    _move_command,
    _moved,
    dry_run=True,
)
CORDON: Final = Action(
    "cordon",
    "Let no new traffic come to a cluster, or let it come again.",
    (
        Argument("cluster", TEXT, "the cluster's name", required=True),
        Argument("undo", FLAG, "let traffic come again"),
    ),
    _cordon_call,
    lambda given: ["uncordon" if given.flag("undo") else "cordon", "cluster", given.text("cluster")],
    lambda given, answer: f"cluster/{given.text('cluster')} {'uncordoned' if given.flag('undo') else 'cordoned'}",
)
