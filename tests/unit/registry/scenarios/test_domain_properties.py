"""Properties under any commands in any order: legal states, unique generations, equal folds, bytes that come back."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.decider import Context
from braid.kernel.errors import BraidError
from services.registry.codec.events import STREAM_CODEC
from services.registry.domain.streams import StreamDecider
from services.registry.model import stream_commands as c
from services.registry.model.channels import LEGAL, Channel, ChannelRef, ChannelState, ChannelWeight
from services.registry.model.stream_commands import StreamCommand
from services.registry.model.stream_events import ChannelPlanned, ChannelRetired, TrafficMoved
from services.registry.model.streams import FailoverMode, Stream, StreamSpec
from tests.support.examples import examples

CLUSTERS = st.sampled_from(["east", "west"])
LANES = st.sampled_from(["live", "dlq"])
REFS = st.builds(ChannelRef, LANES, st.integers(1, 6))
WEIGHTS = st.builds(ChannelWeight, REFS, st.sampled_from([1.0, 0.5]))
SPECS = st.sampled_from(
    [StreamSpec({"live": 2}), StreamSpec({"live": 2, "bulk": 1}, failover=FailoverMode.OFF), StreamSpec({"live": 0})]
)

COMMANDS: st.SearchStrategy[StreamCommand] = st.one_of(
    st.builds(c.CreateStream, SPECS),
    st.builds(c.UpdateStream, SPECS),
    st.builds(c.PlanChannel, LANES, CLUSTERS, st.just("braid."), st.integers(0, 2)),
    st.builds(c.PlanChannel, LANES, CLUSTERS, st.just("braid."), st.just(2)),
    st.builds(c.RecordProvisioned, REFS, st.just(b"id"), st.just("k")),
    st.builds(
        c.MoveTraffic,
        st.lists(WEIGHTS, max_size=2, unique_by=lambda each: each.ref).map(tuple),
        st.lists(REFS, max_size=2, unique=True).map(tuple),
        st.booleans(),
        st.just(""),
    ),
    st.builds(c.RecordProducersLeft, REFS, st.integers(0, 40), st.just(())),
    st.builds(c.RecordSealed, REFS),
    st.builds(c.RecordEndOffsets, REFS, st.lists(st.integers(0, 9), min_size=1, max_size=2).map(tuple)),
    st.builds(c.RecordDrained, REFS, st.just(("g",))),
    st.builds(c.RecordRetentionLifted, REFS),
    st.builds(c.RecordRetentionRestored, REFS),
    st.builds(c.IntendRetirement, REFS),
    st.builds(c.RecordRetired, REFS),
    st.builds(c.MarkStranded, CLUSTERS),
    st.builds(c.MarkReturned, CLUSTERS),
    st.builds(c.BlockFailover, CLUSTERS, st.just("because")),
    st.builds(c.UnblockFailover, CLUSTERS),
    st.builds(c.ProposeMove, CLUSTERS, st.just("because")),
)
RARELY_DELETED = st.lists(st.one_of(*[COMMANDS] * 12, st.builds(c.DeleteStream)), max_size=60)


@dataclass
class Run:
    """The states and events of a random sequence of commands."""

    states: list[Stream]
    records: list[bytes]


def run(commands: list[StreamCommand]) -> Run:
    """Decides, encodes, decodes, evolves; refusals change nothing."""
    decider = StreamDecider()
    made = Run([Stream("logs")], [])
    for number, command in enumerate([c.CreateStream(StreamSpec({"live": 2})), *commands]):
        context = Context(1_000 + number, "test", request_id=f"r{number}", cause="c", leader_epoch=3)
        try:
            events = decider.decide(made.states[-1], command, context)
        except BraidError:
            continue
        for event in events:
            record = STREAM_CODEC.encode(event, context)
            assert STREAM_CODEC.decode(record) == (event, context)
            made.records.append(record)
            made.states.append(decider.evolve(made.states[-1], event, context))
    return made


@settings(max_examples=examples(60))
@given(RARELY_DELETED)
def test_channels_only_take_legal_steps(commands: list[StreamCommand]) -> None:
    states = run(commands).states
    for before, after in pairwise(states):
        known = {channel.ref: channel for channel in before.channels}
        for channel in after.channels:
            was = known.get(channel.ref)
            if was is not None and was.state is not channel.state:
                assert channel.state in LEGAL[was.state]
            _check_channel(channel)


def _check_channel(channel: Channel) -> None:
    if channel.end_offsets is not None:
        assert channel.sealed
    if channel.sealed:
        assert channel.producers_left and channel.drain_revision > 0
    if channel.state is ChannelState.DRAINED and not channel.discarded:
        assert channel.end_offsets is not None
    if channel.state is ChannelState.RETIRED:
        assert channel.retiring


@settings(max_examples=examples(60))
@given(RARELY_DELETED)
def test_generations_are_unique_and_routes_only_grow(commands: list[StreamCommand]) -> None:
    made = run(commands)
    seen: set[ChannelRef] = set()
    revision = 0
    for record in made.records:
        event, _ = STREAM_CODEC.decode(record)
        if isinstance(event, ChannelPlanned):
            assert event.ref not in seen
            seen.add(event.ref)
        elif isinstance(event, TrafficMoved):
            assert event.route_revision > revision
            revision = event.route_revision
        elif isinstance(event, ChannelRetired):
            assert event.ref in seen


@settings(max_examples=examples(60))
@given(RARELY_DELETED)
def test_a_lane_with_a_route_keeps_one_for_its_streams_life(commands: list[StreamCommand]) -> None:
    states = run(commands).states
    for before, after in pairwise(states):
        if after.exists:
            assert all(after.active(lane) for lane in before.spec.lanes if before.active(lane))


@settings(max_examples=examples(60))
@given(RARELY_DELETED, st.integers(0, 80))
def test_folding_all_equals_folding_the_tail_from_a_snapshot(commands: list[StreamCommand], cut: int) -> None:
    made = run(commands)
    cut = min(cut, len(made.records))
    snapshot = STREAM_CODEC.encode_state(made.states[cut])
    state = STREAM_CODEC.decode_state(snapshot)
    assert state == made.states[cut] and STREAM_CODEC.encode_state(state) == snapshot
    for record in made.records[cut:]:
        event, context = STREAM_CODEC.decode(record)
        state = StreamDecider().evolve(state, event, context)
    assert STREAM_CODEC.encode_state(state) == STREAM_CODEC.encode_state(made.states[-1])
