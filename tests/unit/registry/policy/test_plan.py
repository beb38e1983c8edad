"""The plan: what is decided next, from the world alone; carried out by folding, as the reconciler does."""

from dataclasses import replace

import pytest

from braid.kernel.limits.registry.resources import FAILOVERS_MAX
from services.registry.model.channels import Channel, ChannelRef, ChannelState
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.stream_commands import (
    BlockFailover,
    CreateStream,
    IntendRetirement,
    MarkStranded,
    MoveTraffic,
    PlanChannel,
    ProposeMove,
    RecordProvisioned,
    RecordRetired,
    StreamCommand,
)
from services.registry.model.streams import FailoverMode, StreamSpec
from services.registry.model.topics import HOUR_MS
from services.registry.policy.channel_work import Work, next_work
from services.registry.policy.plan import plan
from services.registry.policy.world import Room, World, choose_target
from tests.unit.registry.histories import LOGS, StreamHistory, cluster, created, down, led, provision


def world(history: StreamHistory, *clusters: Cluster) -> World:
    return led(World(history.now_ms, {each.name: each for each in clusters}, {"logs": history.state}))


def settle(history: StreamHistory, *clusters: Cluster, rounds: int = 20) -> list[StreamCommand]:
    """Carries plans out, provisioning and retiring at once, until nothing is left to decide."""
    done: list[StreamCommand] = []
    for _ in range(rounds):
        now = world(history, *clusters)
        commands = [decision.command for decision in plan(now)]
        for channel in history.state.channels:
            work = next_work(now, channel)
            if work is Work.CREATE_TOPIC:
                commands.append(RecordProvisioned(channel.ref, b"id", now.cluster(channel.cluster).kafka_cluster_id))
            elif work is Work.RETIRE:
                commands.append(RecordRetired(channel.ref))
        if not commands:
            return done
        history.run(*commands)
        done += commands
    raise AssertionError(f"the plan never settles: {done[-5:]}")


def where(history: StreamHistory, state: ChannelState) -> list[tuple[str, str]]:
    return sorted((channel.ref.lane, channel.cluster) for channel in history.state.channels if channel.state is state)


def test_a_new_stream_gets_its_channels_then_spares_then_rests() -> None:
    history = StreamHistory()
    history.run(CreateStream(LOGS))
    settle(history, cluster("east"), cluster("west"))
    assert where(history, ChannelState.ACTIVE) == [("dlq", "east"), ("live", "east")]
    assert where(history, ChannelState.STANDBY) == [("dlq", "west"), ("live", "west")]


def test_a_single_cluster_needs_no_spare() -> None:
    history = StreamHistory()
    history.run(CreateStream(replace(LOGS, clusters=("east",))))
    settle(history, cluster("east"))
    assert where(history, ChannelState.STANDBY) == []


def test_a_cluster_down_moves_all_lanes_at_once_and_strands_work() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    commands = settle(history, down("east"), cluster("west"))
    moves = [command for command in commands if isinstance(command, MoveTraffic)]
    assert len(moves) == 1 and not moves[0].planned
    assert moves[0].reason == "cluster east is DOWN: no answer; to west: standby"
    assert where(history, ChannelState.ACTIVE) == [("dlq", "west"), ("live", "west")]
    assert all(channel.stranded for channel in history.state.channels if channel.state is ChannelState.DRAINING)
    settle(history, cluster("east"), cluster("west"))
    assert not any(channel.stranded for channel in history.state.channels)
    assert where(history, ChannelState.STANDBY) == [("dlq", "east"), ("live", "east")]
    assert where(history, ChannelState.ACTIVE) == [("dlq", "west"), ("live", "west")], "traffic does not go back"


def test_without_a_spare_one_is_made_first() -> None:
    history = created()
    settle(history, down("east"), cluster("west"))
    assert where(history, ChannelState.ACTIVE) == [("dlq", "west"), ("live", "west")]
    assert not history.state.blocked


def test_with_nowhere_to_go_it_is_blocked_once_and_unblocked() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    commands = settle(history, down("east"), down("west"))
    assert sum(isinstance(command, BlockFailover) for command in commands) <= 2  # one per lane, one event
    assert dict(history.state.blocked) == {"east": "no cluster can take the traffic: west is DOWN"}
    settle(history, down("east"), cluster("west"))
    assert not history.state.blocked and where(history, ChannelState.ACTIVE)[0] == ("dlq", "west")


def test_a_block_ends_when_the_cluster_itself_returns() -> None:
    history = created()
    settle(history, down("east"), down("west"))
    assert history.state.blocked
    settle(history, cluster("east"), down("west"))
    assert not history.state.blocked and where(history, ChannelState.ACTIVE)[0] == ("dlq", "east")


def test_a_suspect_or_cordoned_cluster_takes_nothing() -> None:
    for other in (cluster("west", health=Health.SUSPECT), cluster("west", cordoned=True)):
        history = created()
        settle(history, down("east"), other)
        assert where(history, ChannelState.ACTIVE) == [("dlq", "east"), ("live", "east")]


@pytest.mark.parametrize("health", [Health.HALF_DEAD, Health.FLAPPING])
def test_a_mostly_working_cluster_is_the_last_resort_of_the_dead(health: Health) -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    settle(history, cluster("east", health=Health.SLOW), cluster("west", health=health))
    assert where(history, ChannelState.ACTIVE) == [("dlq", "east"), ("live", "east")]
    settle(history, down("east"), cluster("west", health=health))
    assert where(history, ChannelState.ACTIVE) == [("dlq", "west"), ("live", "west")]
    assert not history.state.blocked
    closed = created()
    settle(closed, cluster("east"), cluster("west"))
    settle(closed, down("east"), cluster("west", health=health, cordoned=True))
    assert where(closed, ChannelState.ACTIVE) == [("dlq", "east"), ("live", "east")]


def test_a_slow_cluster_is_left_and_strands_nothing() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    settle(history, cluster("east", health=Health.SLOW, health_reason="400 ms"), cluster("west"))
    assert where(history, ChannelState.ACTIVE) == [("dlq", "west"), ("live", "west")]
    assert not any(channel.stranded for channel in history.state.channels)


def test_propose_asks_once_and_off_does_nothing_but_say_so() -> None:
    asked = created(replace(LOGS, failover=FailoverMode.PROPOSE))
    settle(asked, cluster("east"), cluster("west"))
    commands = _twice(asked)
    assert sum(isinstance(command, ProposeMove) for command in commands) == 1 and asked.state.proposed == ("east",)
    off = created(replace(LOGS, failover=FailoverMode.OFF))
    settle(off, cluster("east"), cluster("west"))
    _twice(off)
    assert dict(off.state.blocked) == {"east": "failover is off"}
    assert where(off, ChannelState.ACTIVE) == [("dlq", "east"), ("live", "east")]


def _twice(history: StreamHistory) -> list[StreamCommand]:
    commands: list[StreamCommand] = []
    for _ in range(2):
        found = [decision.command for decision in plan(world(history, down("east"), cluster("west")))]
        history.run(*found)
        commands += found
    return commands


def test_a_flapping_stream_stays_until_the_window_has_passed() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    sides = ["east", "west"]
    for turn in range(FAILOVERS_MAX):
        settle(history, down(sides[turn % 2]), cluster(sides[1 - turn % 2]))
        settle(history, cluster("east"), cluster("west"))
    settle(history, down("east"), cluster("west"))
    assert "move it by hand" in history.state.blocked["east"]
    history.now_ms += 600_000
    settle(history, down("east"), cluster("west"))
    assert not history.state.blocked and where(history, ChannelState.ACTIVE)[0] == ("dlq", "west")


def test_moves_dated_far_ahead_hold_no_stream_for_days() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    history.now_ms += 192 * HOUR_MS
    sides = ["east", "west"]
    for turn in range(FAILOVERS_MAX):
        settle(history, down(sides[turn % 2]), cluster(sides[1 - turn % 2]))
        settle(history, cluster("east"), cluster("west"))
    history.now_ms -= 192 * HOUR_MS
    settle(history, down("east"), cluster("west"))
    assert not history.state.blocked and where(history, ChannelState.ACTIVE)[0] == ("dlq", "west")


def test_spares_leave_a_cordoned_cluster_for_another() -> None:
    spec = StreamSpec({"live": 4})
    history = StreamHistory()
    history.run(CreateStream(spec))
    settle(history, cluster("a"), cluster("b"), cluster("c"))
    assert where(history, ChannelState.STANDBY) == [("dlq", "b"), ("live", "b")]
    settle(history, cluster("a"), cluster("b", cordoned=True), cluster("c"))
    assert where(history, ChannelState.STANDBY) == [("dlq", "c"), ("live", "c")]


def test_capacity_limits_who_takes_traffic() -> None:
    history = created()
    small = cluster("west", spec=ClusterSpec("west:9092", capacity=4))
    settle(history, down("east"), small)
    assert where(history, ChannelState.ACTIVE) in (
        [("dlq", "east"), ("live", "west")],
        [("dlq", "west"), ("live", "east")],
    )
    assert "no headroom" in history.state.blocked["east"]


def test_a_replaced_cluster_loses_its_topics_and_its_traffic() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    settle(history, cluster("east", kafka_cluster_id="other"), cluster("west"))
    assert where(history, ChannelState.ACTIVE) == [("dlq", "west"), ("live", "west")]
    gone = history.channel("live", 1)
    assert gone.state is ChannelState.DRAINING, "the loss is never closed in silence"
    now = world(history, cluster("east", kafka_cluster_id="other"), cluster("west"))
    assert next_work(now, replace(gone, producers_left=True)) is None


def test_a_drained_channel_retires_after_its_streams_retention() -> None:
    history = created()
    channel = replace(history.channel("live", 1), state=ChannelState.DRAINED, state_since_ms=history.now_ms)
    history.state = history.state.with_channel(channel)
    wanted = IntendRetirement(ChannelRef("live", 1))
    assert wanted not in [d.command for d in plan(world(history, cluster("east"), cluster("west")))]
    history.now_ms += history.state.spec.retention_hours * HOUR_MS
    assert wanted in [d.command for d in plan(world(history, cluster("east"), cluster("west")))]


def test_a_drained_channel_on_a_replaced_cluster_retires_at_once() -> None:
    history = created()
    channel = replace(history.channel("live", 1), state=ChannelState.DRAINED, state_since_ms=history.now_ms)
    history.state = history.state.with_channel(channel)
    wanted = IntendRetirement(ChannelRef("live", 1)), "its cluster was replaced"
    assert wanted not in [(d.command, d.cause) for d in plan(world(history, cluster("east"), cluster("west")))]
    replaced = world(history, cluster("east", kafka_cluster_id="other"), cluster("west"))
    assert wanted in [(d.command, d.cause) for d in plan(replaced)]


def test_a_channel_of_another_shape_gets_time_to_become_a_move() -> None:
    history = created()
    settle(history, cluster("east"), cluster("west"))
    ref = provision(history, "live", "west", 8)
    settle(history, cluster("east"), cluster("west"))
    assert history.state.channel(ref).state is ChannelState.STANDBY
    history.now_ms += 61_000
    settle(history, cluster("east"), cluster("west"))
    assert history.state.channel(ref).state is ChannelState.RETIRED


def test_targets_follow_preference_then_use() -> None:
    history = created(replace(LOGS, clusters=("west", "east")))
    now = world(history, cluster("east"), cluster("west"))
    assert choose_target(now, history.state, 1, set(), Room(now)) == "west"
    free = replace(history.state, spec=replace(history.state.spec, clusters=()))
    assert choose_target(now, free, 1, set(), Room(now)) == "east", "the least used"
    assert choose_target(now, free, 1, {"east", "west"}, Room(now)) == ""


def test_a_drain_first_keeps_everything_and_awaits_its_cluster() -> None:
    history = created()
    draining = replace(history.channel("live", 1), state=ChannelState.DRAINING)
    here, away = world(history, cluster("east")), world(history, down("east"))
    steps: list[tuple[dict[str, object], Work]] = [
        ({}, Work.LIFT_RETENTION),
        ({"retention_lifted": True}, Work.AWAIT_PRODUCERS),
        ({"producers_left": True}, Work.SEAL),
        ({"sealed": True}, Work.READ_END_OFFSETS),
        ({"end_offsets": (1, 1, 1, 1)}, Work.AWAIT_GROUPS),
    ]
    for done, work in steps:
        draining = replace(draining, **done)  # type: ignore[arg-type]
        assert next_work(here, draining) is work
        assert next_work(away, draining) is (None if draining.producers_left else Work.AWAIT_PRODUCERS)


def test_a_returned_channel_keeps_all_once_its_cluster_answers() -> None:
    history = created()
    well, away = world(history, cluster("east")), world(history, down("east"))
    answering = replace(away, answering={"east"})
    draining = replace(history.channel("live", 1), state=ChannelState.DRAINING)
    active = replace(history.channel("live", 1), state=ChannelState.ACTIVE, endangered=True)
    for channel in (draining, active):
        assert next_work(away, channel) is not Work.LIFT_RETENTION
        assert next_work(answering, channel) is Work.LIFT_RETENTION
        assert next_work(well, channel) is Work.LIFT_RETENTION
    lifted = replace(active, endangered=False, retention_lifted=True)
    assert next_work(answering, lifted) is None
    assert next_work(well, lifted) is Work.AWAIT_TAIL
    assert next_work(well, replace(lifted, endangered=True)) is Work.LIFT_RETENTION, "it was away again"
    assert next_work(well, replace(lifted, retention_lifted=False)) is None


def test_nothing_is_stranded_but_what_is_consumed() -> None:
    history = created()
    spare = provision(history, "live", "west", 4)
    commands = [decision.command for decision in plan(world(history, cluster("east"), down("west")))]
    assert MarkStranded("west") not in commands
    kept: Channel = history.state.channel(spare)
    assert not kept.stranded
    assert all(not isinstance(command, PlanChannel) for command in commands), "there is no third cluster"
