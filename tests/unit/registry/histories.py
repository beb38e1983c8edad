"""Small worlds for the registry's tests: fold commands, build streams and clusters without a store."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from braid.kernel.decider import Context
from services.registry.domain.clusters import ClusterDecider
from services.registry.domain.streams import StreamDecider
from services.registry.model.channels import Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import ClusterCommand
from services.registry.model.clusters.events import ClusterEvent
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.stream_commands import (
    CreateStream,
    MoveTraffic,
    PlanChannel,
    RecordProvisioned,
    StreamCommand,
)
from services.registry.model.stream_events import StreamEvent
from services.registry.model.streams import Stream, StreamSpec
from services.registry.policy.plan import waits
from services.registry.policy.world import World

START_MS = 1_800_000_000_000
LOGS = StreamSpec({"live": 4}, clusters=("east", "west"))


@dataclass
class StreamHistory:
    """One stream's history in memory."""

    state: Stream = field(default_factory=lambda: Stream("logs"))
    events: list[StreamEvent] = field(default_factory=list)
    now_ms: int = START_MS

    def run(self, *commands: StreamCommand) -> Sequence[StreamEvent]:
        """Decides and folds; returns the new events."""
        decider = StreamDecider()
        new: list[StreamEvent] = []
        for command in commands:
            self.now_ms += 1
            context = Context(self.now_ms, "test", leader_epoch=7)
            for event in decider.decide(self.state, command, context):
                self.state = decider.evolve(self.state, event, context)
                new.append(event)
        self.events += new
        return new

    def channel(self, lane: str, generation: int) -> Channel:
        """One channel."""
        return self.state.channel(ChannelRef(lane, generation))


def created(spec: StreamSpec = LOGS, name: str = "logs") -> StreamHistory:
    """A stream whose lanes are active on the first cluster it names."""
    history = StreamHistory(Stream(name))
    history.run(CreateStream(spec))
    refs: list[ChannelRef] = []
    for lane, partitions in history.state.spec.lanes.items():
        refs.append(provision(history, lane, spec.clusters[0], partitions))
    history.run(MoveTraffic(tuple(ChannelWeight(ref, 1.0) for ref in refs), (), True, "first channels"))
    return history


def provision(history: StreamHistory, lane: str, cluster: str, partitions: int) -> ChannelRef:
    """Makes a standby channel."""
    history.run(PlanChannel(lane, cluster, "braid.", partitions))
    ref = ChannelRef(lane, history.state.generations[lane])
    history.run(RecordProvisioned(ref, b"topic", f"kafka-{cluster}"))
    assert history.state.channel(ref).state is ChannelState.STANDBY
    return ref


def cluster(name: str, **changes: object) -> Cluster:
    """A healthy cluster."""
    spec = ClusterSpec(f"{name}:9092")
    return replace(Cluster(name, True, spec, f"kafka-{name}", health_since_ms=START_MS), **changes)  # type: ignore[arg-type]


def down(name: str) -> Cluster:
    """A cluster that is down."""
    return cluster(name, health=Health.DOWN, health_reason="no answer")


def led(world: World) -> World:
    """A world in which registries led all the time, and recorded what waits at once."""
    waited = {(name, since_ms): world.now_ms - since_ms for name, since_ms in waits(world).items()}
    return replace(world, waited=waited)


def run_cluster(state: Cluster, command: ClusterCommand, now_ms: int = START_MS) -> tuple[Cluster, list[ClusterEvent]]:
    """Decides and folds one command."""
    decider = ClusterDecider()
    context = Context(now_ms, "test")
    events = list(decider.decide(state, command, context))
    for event in events:
        state = decider.evolve(state, event, context)
    return state, events
