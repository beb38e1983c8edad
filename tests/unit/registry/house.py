"""Several streams on clusters as a test sets them: plans and work are carried out at once, in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from services.registry.model.channels import ChannelRef, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.stream_commands import (
    MoveTraffic,
    RecordDrained,
    RecordEndOffsets,
    RecordProducersLeft,
    RecordProvisioned,
    RecordRetentionLifted,
    RecordRetentionRestored,
    RecordRetired,
    RecordSealed,
    StreamCommand,
)
from services.registry.model.streams import Stream, StreamSpec
from services.registry.policy.channel_work import Work, next_work
from services.registry.policy.decommission import Stage, progress
from services.registry.policy.plan import plan
from services.registry.policy.world import World
from tests.unit.registry.histories import StreamHistory, cluster, created, led

WEST = cluster("west")
ANYWHERE = StreamSpec({"live": 4})


@dataclass
class House:
    """Several streams, and clusters as a test sets them; work is carried out at once, but for what is held.

    Attributes:
        held: Steps of work nobody does.
        moves: Per look at the world, which streams moved.
        loads: What was measured of clusters.
    """

    clusters: dict[str, Cluster]
    streams: dict[str, StreamHistory] = field(default_factory=dict)
    held: set[Work] = field(default_factory=set)
    moves: list[list[str]] = field(default_factory=list)
    loads: dict[str, MeasuredLoad] = field(default_factory=dict)

    def set(self, *clusters: Cluster) -> "House":
        self.clusters.update({each.name: each for each in clusters})
        return self

    def add(self, name: str, spec: StreamSpec = ANYWHERE) -> StreamHistory:
        """A stream with its channels and spares, the first on east."""
        history = created(replace(spec, clusters=spec.clusters or ("east",)))
        history.state = replace(history.state, name=name, spec=replace(history.state.spec, clusters=spec.clusters))
        self.streams[name] = history
        return history

    @property
    def world(self) -> World:
        now_ms = max([history.now_ms for history in self.streams.values()], default=0)
        states = {name: history.state for name, history in self.streams.items()}
        return led(World(now_ms, self.clusters, states, loads=self.loads))

    def look(self) -> bool:
        """One look at the world; whether anything was done."""
        decisions = plan(self.world)
        self.moves.append([each.stream for each in decisions if isinstance(each.command, MoveTraffic)])
        for each in decisions:
            self.streams[each.stream].run(each.command)
        worked, world = False, self.world
        for name, history in self.streams.items():
            for channel in history.state.channels:
                work = next_work(world, channel)
                if work is not None and work not in self.held:
                    history.run(done(world, self.streams[name].state, channel.ref, work))
                    worked, world = True, self.world
        return bool(decisions) or worked

    def settle(self, looks: int = 60) -> "House":
        for _ in range(looks):
            if not self.look():
                return self
        raise AssertionError(f"it never settles: {self.moves[-3:]}")

    def wait(self, seconds: float) -> "House":
        """Time passes."""
        for history in self.streams.values():
            history.now_ms += int(seconds * 1_000)
        return self

    def where(self, state: ChannelState) -> list[str]:
        """Clusters of the lanes `live` in a state, by stream."""
        found = [(name, each) for name, history in self.streams.items() for each in history.state.channels]
        return [each.cluster for _, each in found if each.ref.lane == "live" and each.state is state]

    @property
    def stage(self) -> Stage:
        return progress(self.world, self.clusters["east"]).stage


def done(world: World, stream: Stream, ref: ChannelRef, work: Work) -> StreamCommand:
    """The command that records a successful step of work."""
    channel = stream.channel(ref)
    kafka_id = world.cluster(channel.cluster).kafka_cluster_id
    results: Mapping[Work, StreamCommand] = {
        Work.CREATE_TOPIC: RecordProvisioned(ref, b"id", kafka_id),
        Work.LIFT_RETENTION: RecordRetentionLifted(ref),
        Work.AWAIT_PRODUCERS: RecordProducersLeft(ref, stream.route_revision, ()),
        Work.SEAL: RecordSealed(ref),
        Work.READ_END_OFFSETS: RecordEndOffsets(ref, (0,) * channel.partitions),
        Work.AWAIT_GROUPS: RecordDrained(ref, ()),
        Work.RESTORE_RETENTION: RecordRetentionRestored(ref),
        Work.RETIRE: RecordRetired(ref),
    }
    return results[work]


def house(*streams: str, spec: StreamSpec = ANYWHERE, clusters: tuple[Cluster, ...] = (WEST,)) -> House:
    """Streams at rest on east, with spares elsewhere."""
    made = House({}).set(cluster("east"), *clusters)
    for name in streams:
        made.add(name, spec)
    made.settle()
    made.moves.clear()
    return made
