"""Past states of streams and clusters, folded from the histories. Reads only; every replica answers alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import check_name
from braid.kernel.ports import Caller
from braid.runtime.histories.past_states import check_moment, states_at, states_page, whole_states_at
from braid.runtime.replica import Replica
from services.registry.codec.views import NOTHING_KNOWN, channel_message, cluster_message, stream_message
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.model.channels import Channel
from services.registry.model.streams import Stream
from services.registry.policy.world import World


@dataclass(frozen=True, slots=True)
class PastRequests:
    """Handlers of RPCs about the past in one replica."""

    replica: Replica

    async def describe(self, request: api.DescribePastRequest, caller: Caller) -> api.DescribePastResponse:
        """Describes one stream or cluster at a moment, with its channels.

        Raises:
            Invalid: no moment is named, or not exactly one object.
            NotFound: it did not exist then.
            HistoryHole: events that decide the answer are not kept.
            ArchiveDamaged: one of them was changed or removed.
        """
        check_moment(request.at_ms, self.replica.host.clock.now_ms())
        if bool(request.stream) == bool(request.cluster):
            raise Invalid("a stream or a cluster is described", field="stream", remedy="name exactly one of them")
        if request.stream:
            return await self._stream(check_name(request.stream, "stream"), request.at_ms)
        return await self._cluster(check_name(request.cluster, "cluster"), request.at_ms)

    async def list_streams(self, request: api.ListPastStreamsRequest, caller: Caller) -> api.ListPastStreamsResponse:
        """Lists the streams that existed at a moment, by name. Raises `Invalid`, `Exhausted`, `Unavailable`."""
        check_moment(request.at_ms, self.replica.host.clock.now_ms())
        aggregates = self.replica.aggregates
        found = await states_page(aggregates, STREAMS, request.at_ms, request.page_size, request.page_token)
        clusters = await states_at(aggregates, CLUSTERS, request.at_ms)  # where each was; a gap leaves zones out alone
        zones = World(request.at_ms, clusters.states, {}).zones
        streams = [stream_message(each, NOTHING_KNOWN, zones) for each in found.states.values() if each.exists]
        return api.ListPastStreamsResponse(streams=streams, gaps=found.gaps, next_page_token=found.next_page_token)

    async def list_clusters(self, request: api.ListPastClustersRequest, caller: Caller) -> api.ListPastClustersResponse:
        """Lists the clusters that existed at a moment, by name. Raises `Invalid`, `Exhausted`, `Unavailable`."""
        check_moment(request.at_ms, self.replica.host.clock.now_ms())
        clusters = await states_at(self.replica.aggregates, CLUSTERS, request.at_ms)
        streams = await states_at(self.replica.aggregates, STREAMS, request.at_ms)
        world = World(request.at_ms, clusters.states, streams.states)
        listed = [cluster_message(each, world) for each in clusters.states.values() if each.exists]
        return api.ListPastClustersResponse(clusters=listed, gaps=[*clusters.gaps, *streams.gaps])

    async def _stream(self, name: str, at_ms: int) -> api.DescribePastResponse:
        stream = (await self.replica.aggregates.past(STREAMS, name, at_ms)).state
        if not stream.exists:
            raise _unknown("stream", name)
        clusters = await whole_states_at(self.replica.aggregates, CLUSTERS, at_ms)
        zones = World(at_ms, clusters, {}).zones
        channels = [
            channel_message(stream, each, zone=zones.get(each.cluster, "")) for each in _in_order(stream) if each.live
        ]
        return api.DescribePastResponse(stream=stream_message(stream, NOTHING_KNOWN, zones), channels=channels)

    async def _cluster(self, name: str, at_ms: int) -> api.DescribePastResponse:
        cluster = (await self.replica.aggregates.past(CLUSTERS, name, at_ms)).state
        if not cluster.exists:
            raise _unknown("cluster", name)
        streams = await whole_states_at(self.replica.aggregates, STREAMS, at_ms)
        clusters = {name: cluster}
        if cluster.decommissioning:
            clusters = await whole_states_at(self.replica.aggregates, CLUSTERS, at_ms)
        channels = [
            channel_message(stream, each, zone=cluster.spec.zone)
            for stream in streams.values()
            for each in _in_order(stream)
            if each.live and each.cluster == name
        ]
        message = cluster_message(cluster, World(at_ms, clusters, streams))
        return api.DescribePastResponse(cluster=message, channels=channels)


def _in_order(stream: Stream) -> Sequence[Channel]:
    return sorted(stream.channels, key=lambda each: (each.ref.lane, each.ref.generation))


def _unknown(kind: str, name: str) -> NotFound:
    remedy = f"ask when it did: braid events --for {kind}/{name}"
    return NotFound(f"there was no {kind} {name} at that moment", field=kind, remedy=remedy)
