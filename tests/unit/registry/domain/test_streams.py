"""Kind `stream`: the rules of its channels' lives, each refusal, and what must hold whatever is commanded."""

from dataclasses import replace

import pytest

from braid.kernel.errors import AlreadyExists, Conflict, Invalid, NotFound, Refused
from braid.kernel.limits.registry.resources import RETIRED_CHANNELS_KEPT
from braid.kernel.offset_ranges import OPEN
from services.registry.model.channels import ChannelRef, ChannelState, ChannelWeight, DrainStep
from services.registry.model.stream_commands import (
    BlockFailover,
    CreateStream,
    DeleteStream,
    IntendRetirement,
    MarkReturned,
    MarkStranded,
    MoveTraffic,
    PlanChannel,
    ProposeMove,
    RecordDrained,
    RecordEndOffsets,
    RecordProducersLeft,
    RecordProvisioned,
    RecordRetentionLifted,
    RecordRetentionRestored,
    RecordRetired,
    RecordSealed,
    StreamCommand,
    UnblockFailover,
    UpdateStream,
)
from services.registry.model.stream_events import (
    ChannelPlanned,
    FailoverBlocked,
    FailoverUnblocked,
    MoveProposed,
    RetentionLifted,
    RetentionRestored,
    StreamCreated,
    TrafficMoved,
)
from services.registry.model.streams import StreamSpec
from tests.unit.registry.histories import LOGS, StreamHistory, created, provision

ONE = ChannelRef("live", 1)
TWO = ChannelRef("live", 2)


def moved(*, planned: bool = True) -> StreamHistory:
    """The live lane has moved from generation 1 to 2."""
    history = created()
    provision(history, "live", "west", 4)
    history.run(MoveTraffic((ChannelWeight(TWO, 1.0),), (ONE,), planned, "test"))
    return history


def drained() -> StreamHistory:
    history = moved()
    history.run(RecordProducersLeft(ONE, history.state.route_revision), RecordSealed(ONE))
    history.run(RecordEndOffsets(ONE, (1, 2, 3, 4)), RecordDrained(ONE, ("g",)))
    return history


def test_creating_records_the_declaration_once() -> None:
    history = StreamHistory()
    assert history.run(CreateStream(LOGS)) == [StreamCreated(replace(LOGS, lanes={"dlq": 1, "live": 4}))]
    with pytest.raises(AlreadyExists):
        history.run(CreateStream(LOGS))
    with pytest.raises(NotFound):
        StreamHistory().run(DeleteStream())


def test_planning_uses_up_a_generation_and_is_done_once() -> None:
    history = StreamHistory()
    history.run(CreateStream(LOGS))
    plan = PlanChannel("live", "east", "braid.", 4)
    assert history.run(plan) == [ChannelPlanned(ONE, "east", "braid.logs.live.1", 4)]
    assert history.run(plan) == []
    history.run(RecordProvisioned(ONE, b"id", "k"))
    assert history.run(plan) == [], "a standby is a spare too"
    assert history.run(PlanChannel("live", "west", "braid.", 4)) == [
        ChannelPlanned(TWO, "west", "braid.logs.live.2", 4)
    ]
    with pytest.raises(Invalid):
        history.run(PlanChannel("nightly", "east", "braid.", 4))


def test_a_generation_is_not_reused_even_by_a_namesake_stream() -> None:
    history = created()
    history.run(DeleteStream(), CreateStream(LOGS), PlanChannel("live", "east", "braid.", 4))
    assert history.channel("live", 2).topic == "braid.logs.live.2"


def test_traffic_moves_in_one_event_under_the_next_revision() -> None:
    history = created()
    revision = history.state.route_revision
    provision(history, "live", "west", 4)
    events = history.run(MoveTraffic((ChannelWeight(TWO, 1.0),), (ONE,), False, "east DOWN"))
    assert events == [TrafficMoved(revision + 1, (ChannelWeight(TWO, 1.0),), (ONE,), False, "east DOWN")]
    one, two = history.channel("live", 1), history.channel("live", 2)
    assert (one.state, one.drain_revision, one.planned) == (ChannelState.DRAINING, revision + 1, False)
    assert (two.state, two.weight, two.activated_epoch) == (ChannelState.ACTIVE, 1.0, 7)
    assert len(history.state.failovers_ms) == 1


def test_a_move_takes_the_lanes_partitions_with_it() -> None:
    history = created()
    provision(history, "live", "east", 8)
    history.run(MoveTraffic((ChannelWeight(TWO, 1.0),), (ONE,), True, "grow"))
    assert history.state.spec.lanes["live"] == 8


def test_a_move_that_does_not_fit_any_more_is_refused() -> None:
    history = moved()
    with pytest.raises(Conflict):
        history.run(MoveTraffic((), (ONE,), True, "again"))
    with pytest.raises(Conflict):
        history.run(MoveTraffic((ChannelWeight(ONE, 1.0),), (TWO,), True, "back"))
    with pytest.raises(Refused):
        history.run(MoveTraffic((), (TWO,), True, "nowhere"))
    with pytest.raises(NotFound):
        history.run(MoveTraffic((), (ChannelRef("live", 9),), True, "unknown"))


def test_a_drain_goes_step_by_step_and_no_step_may_be_left_out() -> None:
    history = moved()
    revision = history.state.route_revision
    assert history.channel("live", 1).drain_step is DrainStep.PRODUCERS
    for early in (RecordSealed(ONE), RecordEndOffsets(ONE, (0,) * 4), RecordDrained(ONE, ())):
        with pytest.raises(Refused):
            history.run(early)
    with pytest.raises(Refused):
        history.run(RecordProducersLeft(ONE, revision - 1))
    history.run(RecordProducersLeft(ONE, revision, ("p",)))
    assert history.state.channel(ONE).untold
    with pytest.raises(Refused):
        history.run(RecordEndOffsets(ONE, (0,) * 4))
    history.run(RecordSealed(ONE))
    with pytest.raises(Refused):
        history.run(RecordDrained(ONE, ()))
    with pytest.raises(Invalid):
        history.run(RecordEndOffsets(ONE, (1, 2)))
    history.run(RecordEndOffsets(ONE, (1, 2, 3, 4)))
    assert history.channel("live", 1).drain_step is DrainStep.GROUPS
    history.run(RecordDrained(ONE, ("g",)))
    assert history.channel("live", 1).state is ChannelState.DRAINED


def test_only_the_sealed_log_shows_a_dead_producers_acknowledged() -> None:
    told, untold = moved(), moved()
    told.run(RecordProducersLeft(ONE, told.state.route_revision, (), (5, 6, 7, 8)))
    assert told.state.channel(ONE).known_ends == (5, 6, 7, 8)
    untold.run(RecordProducersLeft(ONE, untold.state.route_revision, ("p",), (5, 6, 7, 8)))
    assert untold.state.channel(ONE).known_ends == (OPEN,) * 4
    untold.run(RecordProducersLeft(ONE, untold.state.route_revision, (), (9, 9, 9, 9)))  # another came back
    assert untold.state.channel(ONE).known_ends == (OPEN,) * 4
    untold.run(RecordSealed(ONE), RecordEndOffsets(ONE, (10, 9, 9, 9)))
    assert untold.state.channel(ONE).known_ends == (10, 9, 9, 9)


def test_recording_a_step_again_changes_nothing() -> None:
    history = moved()
    steps: list[StreamCommand] = [
        RecordRetentionLifted(ONE),
        RecordProducersLeft(ONE, history.state.route_revision),
        RecordSealed(ONE),
        RecordEndOffsets(ONE, (1, 2, 3, 4)),
        RecordDrained(ONE, ()),
        RecordRetentionRestored(ONE),
        IntendRetirement(ONE),
        RecordRetired(ONE),
    ]
    for step in steps:
        assert len(history.run(step)) == 1
        assert history.run(step) == []


def test_only_drained_and_spare_channels_are_retired() -> None:
    history = moved()
    for ref in (ONE, TWO):
        with pytest.raises(Refused):
            history.run(IntendRetirement(ref))
    spare = provision(history, "live", "east", 4)
    with pytest.raises(Refused):
        history.run(RecordRetired(spare))
    history.run(IntendRetirement(spare), RecordRetired(spare))
    assert history.state.channel(spare).state is ChannelState.RETIRED


def test_stranded_marks_what_can_be_consumed_and_only_once() -> None:
    history = moved()
    assert len(history.run(MarkStranded("east"))) == 2  # live/1 drains there, dlq/1 is active there
    assert history.run(MarkStranded("east")) == []
    assert history.channel("live", 1).stranded and not history.channel("live", 2).stranded
    assert len(history.run(MarkReturned("east"))) == 2
    assert not history.channel("live", 1).stranded


def test_a_channel_away_under_traffic_keeps_all_until_safe() -> None:
    history = created()
    restore, lift = RecordRetentionRestored(ONE), RecordRetentionLifted(ONE)
    assert history.run(lift) == history.run(restore) == []
    history.run(MarkStranded("east"))
    assert history.channel("live", 1).keeps_everything
    assert history.run(restore) == [], "it may be eaten"
    history.run(MarkReturned("east"))
    assert history.run(lift) == [RetentionLifted(ONE)]
    assert history.run(lift) == []
    history.run(MarkStranded("east"))
    assert history.run(restore) == [], "it was away again"
    assert history.run(lift) == [RetentionLifted(ONE)]
    assert history.run(restore) == [RetentionRestored(ONE)]
    assert not history.channel("live", 1).keeps_everything
    assert not history.channel("live", 1).retention_restored, "that of a drained channel is to come"


def test_a_block_is_recorded_once_and_ends_when_traffic_leaves() -> None:
    history = created()
    assert history.run(BlockFailover("east", "no target")) == [FailoverBlocked("east", "no target")]
    assert history.run(BlockFailover("east", "no target")) == []
    assert history.run(BlockFailover("east", "another reason")) == [FailoverBlocked("east", "another reason")]
    assert dict(history.state.blocked) == {"east": "another reason"}
    provision(history, "live", "west", 4)
    provision(history, "dlq", "west", 1)
    first = history.run(MoveTraffic((ChannelWeight(TWO, 1.0),), (ONE,), False, "east DOWN"))
    assert FailoverUnblocked("east") not in first, "dlq is still there"
    dlq = ChannelRef("dlq", 2)
    last = history.run(MoveTraffic((ChannelWeight(dlq, 1.0),), (ChannelRef("dlq", 1),), False, "east DOWN"))
    assert FailoverUnblocked("east") in last and not history.state.blocked


def test_a_proposal_is_made_once_and_withdrawn() -> None:
    history = created()
    assert history.run(ProposeMove("east", "DOWN")) == [MoveProposed("east", "DOWN")]
    assert history.run(ProposeMove("east", "DOWN")) == []
    assert history.run(UnblockFailover("east")) == [FailoverUnblocked("east")]
    assert history.run(UnblockFailover("east")) == [] and not history.state.proposed


def large(lanes: int) -> StreamSpec:
    """A stream with so many lanes of ten thousand partitions."""
    return replace(LOGS, lanes={f"l{number:02}": 10_000 for number in range(lanes)})


def test_a_stream_over_the_bound_of_partitions_is_not_created() -> None:
    for lanes in (15, 2):  # the largest declaration that passes by lane; two, and the lane of dead letters
        with pytest.raises(Invalid) as refused:
            StreamHistory().run(CreateStream(large(lanes)))
        assert refused.value.field == "spec.lanes" and refused.value.remedy
    assert StreamHistory().run(CreateStream(large(1)))


def test_an_update_beyond_the_bound_of_partitions_is_refused() -> None:
    history = StreamHistory()
    history.run(CreateStream(large(1)))
    with pytest.raises(Invalid) as refused:
        history.run(UpdateStream(large(2)))
    assert refused.value.field == "spec.lanes"
    before = replace(large(3), lanes={"dlq": 1, **large(3).lanes})
    history.state = replace(history.state, spec=before)
    assert history.run(UpdateStream(replace(before, retention_hours=9)))
    with pytest.raises(Invalid):
        history.run(UpdateStream(replace(before, lanes={**before.lanes, "late": 1})))


def test_an_update_changes_what_may_change() -> None:
    history = created()
    spec = history.state.spec
    history.run(UpdateStream(replace(spec, retention_hours=1, lanes={**spec.lanes, "bulk": 2}), history.state.etag))
    assert history.state.spec.lanes["bulk"] == 2
    with pytest.raises(Conflict):
        history.run(UpdateStream(spec, "1"))
    assert history.run(UpdateStream(history.state.spec)) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (StreamSpec({"bulk": 4}, LOGS.clusters), "spec.lanes"),
        (StreamSpec({"live": 8}, LOGS.clusters), "spec.lanes.live.partitions"),
        (replace(LOGS, max_record_bytes=2048), "spec.max_record_bytes"),
    ],
)
def test_an_update_of_what_may_not_change_names_the_field(spec: StreamSpec, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        created().run(UpdateStream(spec))
    assert refused.value.field == field


def test_deleting_discards_everything_and_retires_topics_later() -> None:
    history = moved()
    provision(history, "live", "east", 4)
    history.run(DeleteStream())
    assert {channel.state for channel in history.state.channels} == {ChannelState.DRAINED}
    assert all(channel.retiring and channel.discarded for channel in history.state.channels)
    assert history.run(RecordRetired(ONE)) and not history.state.exists
    history.run(CreateStream(LOGS))
    assert not history.state.active("live"), "a new stream begins empty"
    assert history.run(RecordRetired(TWO)), "what is left of the old one still goes"


def test_retired_channels_are_forgotten_beyond_the_latest() -> None:
    history = created()
    for _ in range(RETIRED_CHANNELS_KEPT + 5):
        ref = provision(history, "live", "west", 4)
        history.run(IntendRetirement(ref), RecordRetired(ref))
    assert sum(not channel.live for channel in history.state.channels) == RETIRED_CHANNELS_KEPT
    assert history.state.generations["live"] == RETIRED_CHANNELS_KEPT + 6


def test_after_the_drain_retention_returns_and_the_topic_goes() -> None:
    history = drained()
    history.run(RecordRetentionRestored(ONE), IntendRetirement(ONE), RecordRetired(ONE))
    assert history.channel("live", 1).state is ChannelState.RETIRED
