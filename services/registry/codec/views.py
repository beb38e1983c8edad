"""Streams, clusters and channels as API messages. No rules, no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.api.registry.v1 import cluster_pb2, route_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.limits.registry.health import GONE_NAMED_MAX, UNDER_REPLICATED_NAMED_MAX
from braid.kernel.limits.registry.traffic import DECOMMISSION_NAMED_MAX
from services.registry.codec.events import health_number, range_messages, verdict_number
from services.registry.codec.specs import cluster_spec_message, stream_spec_message, thresholds_message
from services.registry.health.observed import EvidenceSummary
from services.registry.liveness.copy_progress import CopiesKey, CopiesProgress
from services.registry.model.channels import Channel, ChannelRef, ChannelState, DrainStep
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.clusters.thresholds import NAMES
from services.registry.model.streams import Stream
from services.registry.policy.decommission import Departure, Stage, progress
from services.registry.policy.moves import LaneMove
from services.registry.policy.world import World
from services.registry.policy.zone_spread import MissingZone

Holders = Mapping[tuple[str, ChannelRef], Sequence[str]]


class LeaderKnowledge(NamedTuple):
    """Facts about channels that only the leading registry knows: what holds their drains, and the progress of
    copies."""

    holders: Holders
    copies: Mapping[CopiesKey, CopiesProgress]


NOTHING_KNOWN: Final = LeaderKnowledge({}, {})
_STATES: Final = {
    ChannelState.PROVISIONING: stream_pb2.CHANNEL_STATE_PROVISIONING,
    ChannelState.STANDBY: stream_pb2.CHANNEL_STATE_STANDBY,
    ChannelState.ACTIVE: stream_pb2.CHANNEL_STATE_ACTIVE,
    ChannelState.DRAINING: stream_pb2.CHANNEL_STATE_DRAINING,
    ChannelState.DRAINED: stream_pb2.CHANNEL_STATE_DRAINED,
    ChannelState.RETIRED: stream_pb2.CHANNEL_STATE_RETIRED,
}
_STEPS: Final = {
    None: stream_pb2.DRAIN_STEP_UNSPECIFIED,
    DrainStep.PRODUCERS: stream_pb2.DRAIN_STEP_PRODUCERS,
    DrainStep.SEAL: stream_pb2.DRAIN_STEP_SEAL,
    DrainStep.END_OFFSETS: stream_pb2.DRAIN_STEP_END_OFFSETS,
    DrainStep.GROUPS: stream_pb2.DRAIN_STEP_GROUPS,
}
_STAGES: Final = {
    Stage.BLOCKED: cluster_pb2.DECOMMISSION_STATE_BLOCKED,
    Stage.STRANDED: cluster_pb2.DECOMMISSION_STATE_STRANDED,
    Stage.MOVING: cluster_pb2.DECOMMISSION_STATE_MOVING,
    Stage.DRAINING: cluster_pb2.DECOMMISSION_STATE_DRAINING,
    Stage.KEEPING: cluster_pb2.DECOMMISSION_STATE_KEEPING,
    Stage.CLEARING: cluster_pb2.DECOMMISSION_STATE_CLEARING,
    Stage.EMPTY: cluster_pb2.DECOMMISSION_STATE_EMPTY,
}


def cluster_message(
    cluster: Cluster, world: World, evidence: EvidenceSummary | None = None, unmeasured: str = ""
) -> cluster_pb2.Cluster:
    """A cluster's message, with the channels it carries.

    Args:
        cluster: The cluster.
        world: The snapshot it is part of.
        evidence: The latest evidence on its health, if known.
        unmeasured: Why its load was not measured lately, if known.
    """
    here = [
        channel.state
        for stream in world.streams.values()
        for channel in stream.channels
        if channel.cluster == cluster.name
    ]
    status = cluster_pb2.ClusterStatus(
        health=health_number(cluster.health),
        health_reason=cluster.health_reason,
        health_since_ms=cluster.health_since_ms,
        kafka_cluster_id=cluster.kafka_cluster_id,
        cordoned=bool(cluster.closed),
        active_channels=here.count(ChannelState.ACTIVE),
        draining_channels=here.count(ChannelState.DRAINING),
        decommission=_decommission_message(cluster, world) if cluster.decommissioning else None,
        verdict=verdict_number(cluster.verdict),
        evidence=_evidence_message(evidence) if evidence is not None else None,
        mesh=cluster.belonging.mesh,
        foreign_mesh=cluster.belonging.foreign_mesh,
        orphan_topics=cluster.belonging.orphan_topics,
        orphan_groups=cluster.belonging.orphan_groups,
        orphans=cluster.belonging.orphans,
        load=_load_message(world.load(cluster.name), unmeasured),
        usual_brokers=cluster.usual_brokers,
    )
    return cluster_pb2.Cluster(
        name=cluster.name,
        spec=cluster_spec_message(cluster.spec),
        status=status,
        etag=cluster.etag,
        create_time_ms=cluster.create_time_ms,
    )


def _evidence_message(seen: EvidenceSummary) -> cluster_pb2.HealthEvidence:
    look, latency = seen.look, seen.latency
    return cluster_pb2.HealthEvidence(
        looked_ms=seen.looked_ms,
        failed=f"{look.failed.value}: {look.reason}" if look.failed is not None else "",
        append_seconds=look.append_seconds,
        usual_append_seconds=latency.usual,
        slow_append_seconds=latency.bound(seen.thresholds),
        brokers=seen.brokers,
        missing_brokers=seen.missing_brokers,
        silent_brokers=seen.silent_brokers,
        partitions=seen.partitions,
        gone_partitions=len(seen.gone),
        gone=[f"{each.topic}/{each.partition}" for each in seen.gone[:GONE_NAMED_MAX]],
        under_replicated_partitions=seen.under_replicated,
        under_replicated_topics=seen.under_replicated_topics[:UNDER_REPLICATED_NAMED_MAX],
        under_replicated_topic_count=len(seen.under_replicated_topics),
        hosts=seen.reports.hosts,
        hosts_reaching=seen.reports.reaching,
        hosts_failing=seen.reports.failing,
        falls=seen.falls,
        thresholds=thresholds_message({name: getattr(seen.thresholds, name) for name in NAMES}),
        no_topics=seen.no_topics,
        denied=look.reason if look.denied else "",
    )


def _load_message(load: MeasuredLoad | None, unmeasured: str) -> cluster_pb2.ClusterLoad | None:
    if load is None:
        return cluster_pb2.ClusterLoad(unmeasured=unmeasured) if unmeasured else None
    return cluster_pb2.ClusterLoad(
        measured_ms=load.measured_ms,
        broker=load.broker,
        free_bytes=load.free_bytes,
        total_bytes=load.total_bytes,
        bytes_per_s=load.bytes_per_s,
        silent_brokers=load.silent,
        unmeasured=unmeasured,
    )


def _decommission_message(cluster: Cluster, world: World) -> cluster_pb2.Decommission:
    found = progress(world, cluster)
    blocked = found.blocked[:DECOMMISSION_NAMED_MAX]
    return cluster_pb2.Decommission(
        state=_STAGES[found.stage],
        since_ms=cluster.decommission_since_ms,
        reason=cluster.decommission_reason,
        discard_drained=cluster.discard_drained,
        streams_left=found.streams,
        active_channels=found.active,
        spare_channels=found.spare,
        draining_channels=found.draining,
        drained_channels=found.drained,
        stranded_channels=len(found.stranded),
        stranded=found.stranded[:DECOMMISSION_NAMED_MAX],
        blocked_streams=len(found.blocked),
        blocked=[cluster_pb2.BlockedStream(stream=each.stream, reason=each.blocked) for each in blocked],
        kept_until_ms=found.kept_until_ms,
    )


def move_message(stream: str, move: LaneMove) -> api.ChannelMove:
    """One lane's part of a move, as a message."""
    return api.ChannelMove(
        lane=move.lane,
        from_channels=[str(channel.id(stream)) for channel in move.drain],
        to_channel=f"{stream}/{move.to}" if move.to else "",
        to_cluster=move.cluster,
        partitions=move.partitions,
        weight=move.share,
    )


def departure_message(departure: Departure) -> api.Departure:
    """A stream's departure from a cluster, as a message."""
    moves = [move_message(departure.stream, move) for move in departure.moves]
    return api.Departure(stream=departure.stream, moves=moves, blocked_reason=departure.blocked)


def channel_message(
    stream: Stream, channel: Channel, known: LeaderKnowledge = NOTHING_KNOWN, zone: str = ""
) -> stream_pb2.Channel:
    """A channel's message, with the leader's facts about it, and the zone of its cluster if it is asked for."""
    holders = known.holders.get((stream.name, channel.ref), ())
    return stream_pb2.Channel(
        name=str(channel.id(stream.name)),
        stream=stream.name,
        lane=channel.ref.lane,
        generation=channel.ref.generation,
        cluster=channel.cluster,
        topic=channel.topic,
        partitions=channel.partitions,
        state=_STATES[channel.state],
        stranded=channel.stranded,
        weight=channel.weight,
        topic_id=channel.topic_id,
        end_offsets=channel.end_offsets or (),
        drain_step=_STEPS[channel.drain_step],
        drain_holders=holders,
        state_since_ms=channel.state_since_ms,
        lost=range_messages(channel.lost),
        lost_evidence=channel.lost_evidence,
        acknowledged=channel.acknowledged,
        closed=channel.closed,
        waits_for=[str(each.id(stream.name)) for each in stream.waits_for(channel)],
        overwritten=range_messages(channel.overwritten),
        left_revision=channel.drain_revision,
        in_order=stream.keeps_order(channel.ref.lane) and not channel.released,
        retiring=channel.retiring,
        replication_factor=channel.copies,
        reassignment=_reassignment_message(channel, known.copies.get(CopiesKey(stream.name, channel.ref))),
        zone=zone,
    )


def _reassignment_message(channel: Channel, progress: CopiesProgress | None) -> stream_pb2.ChannelReassignment | None:
    """Progress of copies that are being added or removed; None if there is no reassignment."""
    if not channel.copies_intended and not (progress and progress.waits_for):
        return None
    return stream_pb2.ChannelReassignment(
        replication_factor=channel.copies_intended,
        throttle_bytes_per_s=channel.throttle_bytes_per_s,
        partitions_left=progress.partitions_left if progress else 0,
        waits_for=progress.waits_for if progress else "",
    )


def stream_message(
    stream: Stream, known: LeaderKnowledge, zones: Mapping[str, str], missing: Sequence[MissingZone] = ()
) -> stream_pb2.Stream:
    """A stream's message, with its channels that still have a topic.

    Args:
        stream: The stream.
        known: The leader's facts about its channels.
        zones: Of each cluster, by name.
        missing: Zones that lack a channel of its lanes.
    """
    channels = [
        channel_message(stream, channel, known, zones.get(channel.cluster, ""))
        for channel in stream.channels
        if channel.live and not channel.discarded
    ]
    asked = [
        f"a move away from {cluster} is proposed: braid move stream {stream.name} --away-from {cluster}"
        for cluster in stream.proposed
    ]
    if (proposal := stream.rebalance) is not None:
        move = f"braid move stream {stream.name} --to {proposal.to_cluster}"
        asked.append(f"a move to {proposal.to_cluster} is proposed ({proposal.reason}): {move}")
    reasons = [f"{cluster}: {reason}" for cluster, reason in sorted(stream.blocked.items())]
    return stream_pb2.Stream(
        name=stream.name,
        spec=stream_spec_message(stream.spec),
        status=stream_pb2.StreamStatus(
            route_revision=stream.route_revision,
            channels=channels,
            blocked_reason="; ".join((*reasons, *asked)),
            missing_zones=[stream_pb2.MissingZone(**each._asdict()) for each in missing],
        ),
        etag=stream.etag,
        create_time_ms=stream.create_time_ms,
        tenant=stream.tenant,
    )


def cluster_addresses(world: World, names: Iterable[str]) -> list[ClusterAddress]:
    """Addresses of the named clusters that exist, sorted."""
    return [
        ClusterAddress(
            name=name,
            bootstrap=world.cluster(name).spec.bootstrap,
            zone=world.cluster(name).spec.zone,
            security_profile=world.cluster(name).spec.security_profile,
        )
        for name in sorted(set(names))
        if world.cluster(name).exists
    ]


def route_message(stream: Stream, world: World) -> route_pb2.Route:
    """A stream's route, as producers receive it."""
    lanes: list[route_pb2.RouteLane] = []
    for lane in stream.spec.lanes:
        channels = [_route_channel(stream.name, channel) for channel in stream.active(lane)]
        if channels:
            keyed = lane in stream.spec.lanes_keyed_by_zone
            lanes.append(route_pb2.RouteLane(lane=lane, channels=channels, keys_by_zone=keyed))
    dropped = [
        route_pb2.DroppedChannel(channel=str(channel.id(stream.name)), planned=channel.planned)
        for channel in stream.channels
        if channel.drain_revision and channel.live and not channel.discarded
    ]
    named = [channel.cluster for channel in stream.channels if channel.live and not channel.discarded]
    return route_pb2.Route(
        stream=stream.name,
        revision=stream.route_revision,
        lanes=lanes,
        clusters=cluster_addresses(world, named),
        max_record_bytes=stream.spec.max_record_bytes,
        dropped=dropped,
    )


def _route_channel(stream: str, channel: Channel) -> route_pb2.RouteChannel:
    return route_pb2.RouteChannel(
        channel=str(channel.id(stream)),
        cluster=channel.cluster,
        topic=channel.topic,
        partitions=channel.partitions,
        weight=channel.weight,
    )
