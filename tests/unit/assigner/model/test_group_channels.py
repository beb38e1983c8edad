"""Which channels a group consumes: what drained ones lead to, in which order they are read, what old releases leave."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from braid.api.assigner.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import Unavailable
from braid.kernel.limits.assigner.leases import DRAINED_TIME_SLACK_SECONDS, READING_AT_ONCE
from braid.kernel.offset_ranges import OPEN, OffsetRange
from services.assigner.codec import snapshots
from services.assigner.codec.events import GroupCodec
from services.assigner.model import group_channels
from services.assigner.model.channels import (
    ChannelClosed,
    ChannelObserved,
    CloseChannel,
    EndReading,
    FinishReading,
    Presence,
    SeenChannel,
)
from services.assigner.model.commands import (
    Balance,
    FixStart,
    JoinMember,
    RegisterGroup,
    UpdateGroup,
)
from services.assigner.model.events import (
    Event,
    LeasesReleased,
    ReleaseReason,
    RevokesStarted,
)
from services.assigner.model.group import GroupSpec, StartKind, StartPosition
from services.assigner.model.progress_resets import RecordReset, ResetIntended, ResetProgress
from tests.unit.assigner.groups import SPEC, History, hello, joined, member, observe, registered, seen, view

OLD, NEW = "logs/live/1", "logs/live/2"
DRAINED = seen(OLD, presence=Presence.DRAINED)
GOLDEN = Path("tests/golden/events/assigner/later")
LATER: dict[str, Event] = {
    "channel_observed": ChannelObserved(
        OLD,
        "east",
        "braid.logs.live.1",
        3,
        True,
        41,
        False,
        "a",
        reading=True,
        unproved=True,
        left_revision=7,
        in_order=True,
    ),
    "channel_finished": ChannelObserved(OLD, "east", "braid.logs.live.1", 3, False, 41, False, finished=True),
    "channel_ending": ChannelObserved(OLD, "east", "braid.logs.live.1", 3, False, 41, False, reading=True, ending=True),
    "channel_closed": ChannelClosed(OLD, 42, (OffsetRange(0, 3, 9), OffsetRange(2, 0, OPEN))),
}
CONTEXT = Context(1_770_000_000_123, "assigner-0", "default", "r-1", "cluster/east DOWN", 5)


def reading(*channels: SeenChannel, spec: GroupSpec = SPEC) -> History:
    """A group with one member that begins in drained channels, its starts fixed and everything granted."""
    return joined(1, *(channels or (DRAINED, seen(NEW))), spec=spec)


def held(history: History) -> set[str]:
    """Channels with held leases."""
    return {name.rpartition("/")[0] for name in history.holders()}


# --- where a group begins


def test_an_earliest_group_begins_in_drained_channels_as_well() -> None:
    history = History()
    history.do(RegisterGroup(SPEC, view(10, DRAINED, seen("logs/dlq/1", presence=Presence.DRAINED))))
    assert list(history.state.channels) == [OLD]
    assert history.state.channels[OLD].awaits_start
    history.do(FixStart(OLD, (0, 0, 0, 0)), JoinMember(hello(member(1)), SPEC))
    history.settle()
    assert held(history) == {OLD}
    assert group_channels.reading(history.state) == [OLD]


@pytest.mark.parametrize("presence", [Presence.ENDING, Presence.GONE, Presence.AHEAD])
def test_it_does_not_begin_in_what_is_about_to_be_deleted(presence: Presence) -> None:
    assert registered(seen(OLD, presence=presence)).state.channels == {}


def test_a_start_at_a_time_skips_channels_drained_before_it() -> None:
    drained = replace(DRAINED, drained_at_ms=1_000_000)
    slack_ms = round(DRAINED_TIME_SLACK_SECONDS * 1000)
    at = {
        time_ms: set(registered(drained, spec=_starting(StartKind.TIME, time_ms)).state.channels)
        for time_ms in (5, 1_000_000 + slack_ms, 1_000_001 + slack_ms)
    }
    assert at == {5: {OLD}, 1_000_000 + slack_ms: {OLD}, 1_000_001 + slack_ms: set()}
    assert registered(drained, spec=_starting(StartKind.LATEST)).state.channels == {}


def _starting(kind: StartKind, time_ms: int = 0) -> GroupSpec:
    return GroupSpec(("logs",), start=StartPosition(kind, time_ms))


def test_an_update_begins_only_in_drained_channels_new_to_it() -> None:
    spec = GroupSpec(("logs",), (("live", 1),))
    history = registered(seen(NEW), spec=spec)
    bulk = seen("logs/bulk/1", presence=Presence.DRAINED)
    wider = GroupSpec(("logs",), (("bulk", 1), ("live", 1)))
    history.do(UpdateGroup(wider, view(11, DRAINED, bulk, seen(NEW))))
    assert set(history.state.channels) == {NEW, "logs/bulk/1"}
    assert history.do(UpdateGroup(spec, view(12, DRAINED, bulk, seen(NEW)))) != []
    history.do(UpdateGroup(wider, view(13, DRAINED, bulk, seen(NEW))))
    assert group_channels.reading(history.state) == ["logs/bulk/1"], "as far as it was read before"


def test_views_add_no_drained_channels_to_groups_not_begun_there() -> None:
    history = registered(seen(NEW))
    assert observe(history, 11, DRAINED, seen(NEW)) == []


# --- when it is finished


def test_a_channel_is_finished_once_reported_and_its_leases_end() -> None:
    history = reading()
    observed, released = history.do(FinishReading(OLD, 0))
    assert isinstance(observed, ChannelObserved)
    assert (observed.consumable, observed.finished) == (False, True)
    assert isinstance(released, LeasesReleased)
    assert released.reason is ReleaseReason.CHANNEL_GONE
    assert history.do(FinishReading(OLD, 0)) == [], "told twice"
    assert observe(history, 99, DRAINED, seen(NEW)) == []
    history.settle()
    assert held(history) == {NEW}


def test_a_look_from_before_a_reset_finishes_nothing() -> None:
    history = registered(DRAINED)
    reset = ResetIntended(OLD, (9, 9, 9, 9), (0, 0, 0, 0))
    history.do(ResetProgress((reset,)), RecordReset(OLD, reset.offsets))
    assert history.do(FinishReading(OLD, 0)) == []
    assert history.do(FinishReading(OLD, history.state.resets)) != []


@pytest.mark.parametrize("presence", [Presence.DRAINED, Presence.ENDING])
def test_a_drain_that_waited_for_the_group_finishes_its_channel(presence: Presence) -> None:
    history = joined(1, seen(OLD), seen(NEW))
    observe(history, 11, replace(seen(OLD), draining=True), seen(NEW))
    observed, released = observe(history, 12, seen(OLD, presence=presence), seen(NEW))
    assert isinstance(observed, ChannelObserved)
    assert isinstance(released, LeasesReleased)
    assert not observed.consumable


def test_a_drain_that_may_not_have_waited_for_the_group_does_not() -> None:
    """The group registered during the drain, was idle for too long, reset its progress, or had left the lane."""
    late = registered(replace(seen(OLD), draining=True))
    idle = registered(seen(OLD))
    idle.give_up()
    rewound = registered(seen(OLD))
    rewound.do(ResetProgress((ResetIntended(OLD, (9,) * 4, (0,) * 4),)))
    away = registered(seen(OLD), spec=GroupSpec(("logs",), (("live", 1),)))
    away.do(UpdateGroup(GroupSpec(("logs",), (("bulk", 1),)), view(10, seen(OLD), seen("logs/bulk/1"))))
    for history in (late, idle, rewound, away):
        (event,) = observe(history, 12, DRAINED)
        assert isinstance(event, ChannelObserved)
        assert (event.consumable, event.reading) == (True, True)
    assert rewound.state.channels[OLD].reset == (0,) * 4, "a reset is not swallowed by a drain"
    assert group_channels.reading(away.state) == [], "it does not consume the lane"


def test_what_a_person_gave_up_is_finished() -> None:
    history = registered(replace(seen(OLD), draining=True))
    (event,) = observe(history, 12, replace(DRAINED, given_up=True))
    assert isinstance(event, ChannelObserved)
    assert not event.consumable


# --- resets


def test_a_reset_begins_in_drained_channels_finished_or_unseen() -> None:
    history = registered(DRAINED, seen(NEW))
    history.do(FinishReading(OLD, 0))
    for name in (OLD, "logs/live/0"):
        begun = group_channels.begun(seen(name, presence=Presence.DRAINED), 20, appeared_later=True)
        intent = ResetIntended(name, (9, 9, 9, 9), (0, 0, 0, 0))
        assert history.do(ResetProgress((intent,), (begun,))) == [begun, intent]
        assert not history.state.channels[name].grantable
        history.do(RecordReset(name, intent.offsets))
        assert history.state.channels[name].grantable
    assert group_channels.reading(history.state) == ["logs/live/0", OLD]


# --- order


def test_an_ordered_channel_waits_for_those_that_left_earlier() -> None:
    lane = [
        replace(seen("logs/live/1", presence=Presence.DRAINED), left_revision=9, in_order=True),
        replace(seen("logs/live/2", presence=Presence.DRAINED), left_revision=4, in_order=True),
        replace(seen("logs/live/3"), left_revision=6, in_order=True, draining=True),
        replace(seen("logs/live/4"), in_order=True),
    ]
    history = reading(*lane)
    order = []
    for _ in range(3):
        (now,) = held(history)
        order.append(now)
        if history.state.channels[now].reading:
            history.do(FinishReading(now, 0))
        else:
            observe(history, 20, replace(lane[2], presence=Presence.DRAINED, given_up=True), *lane[:2], lane[3])
        history.settle()
    assert order == ["logs/live/2", "logs/live/3", "logs/live/1"]
    assert held(history) == {"logs/live/4"}


def test_one_that_was_released_from_the_order_waits_for_none() -> None:
    old = replace(DRAINED, left_revision=9, in_order=True)
    assert held(reading(old, replace(seen(NEW), in_order=True))) == {OLD}
    assert held(reading(old, seen(NEW))) == {OLD, NEW}


def test_unordered_lanes_read_a_few_of_each_cluster_at_once() -> None:
    many = [seen(f"logs/live/{number}", 1, presence=Presence.DRAINED) for number in range(1, READING_AT_ONCE + 3)]
    west = seen("logs/live/50", 1, presence=Presence.DRAINED, cluster="west")
    history = reading(*many, west, seen("logs/live/99"))
    waiting = {"logs/live/9", "logs/live/10"}
    assert held(history) == {each.name for each in many} - waiting | {"logs/live/50", "logs/live/99"}


# --- deletion


def test_holders_release_leases_before_a_topic_is_deleted() -> None:
    history = reading()
    assert history.do(EndReading(OLD)) != []
    assert history.do(EndReading(OLD)) == [], "told twice"
    assert observe(history, 30, DRAINED, seen(NEW)) == [], "it is not begun again"
    with pytest.raises(Unavailable, match=r"4 leases .* are being given back"):
        history.do(CloseChannel(OLD, 31))
    assert isinstance(history.do(Balance((member(1),)))[0], RevokesStarted)
    history.settle_revokes()
    left = (OffsetRange(0, 3, 9),)
    assert history.do(CloseChannel(OLD, 31, left)) == [ChannelClosed(OLD, 31, left)]
    assert group_channels.unread(history.state) == [(OLD, left)]
    assert group_channels.reading(history.state) == []


def test_a_topic_gone_before_it_was_read_is_named_as_a_whole() -> None:
    history = registered(DRAINED)
    (closed,) = observe(history, 30, seen(OLD, presence=Presence.GONE))
    assert closed == ChannelClosed(OLD, 30, tuple(OffsetRange(number, 0, OPEN) for number in range(4)))


# --- releases


@pytest.mark.parametrize("name", LATER)
def test_later_fields_round_trip_and_their_golden_bytes_match(name: str) -> None:
    event = LATER[name]
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    assert GroupCodec().decode(base64.b64decode(golden["data"])) == (event, CONTEXT)
    assert GroupCodec().decode(GroupCodec().encode(event, CONTEXT)) == (event, CONTEXT)
    assert repr(event) == golden["event"]


def test_an_older_release_reads_a_drained_channel_as_active() -> None:
    """An older release ends the channel at its next look, without recording it as finished: a later release goes on
    reading."""
    message = pb.AssignerEvent.FromString(GroupCodec().encode(LATER["channel_observed"], CONTEXT))
    for field in ("reading", "finished", "ending", "unproved", "left_revision", "in_order"):
        message.channel_observed.ClearField(field)
    event, _ = GroupCodec().decode(message.SerializeToString())
    assert event == ChannelObserved(OLD, "east", "braid.logs.live.1", 3, True, 41, False, "a")
    history = registered(DRAINED)
    old_release = ChannelObserved(OLD, "east", "braid.logs.live.1", 4, False, 20, False)
    history.state = history.decider.evolve(history.state, old_release, CONTEXT)
    assert not history.state.channels[OLD].grantable
    observe(history, 21, DRAINED)
    assert history.state.channels[OLD].grantable


def test_snapshots_hold_what_is_read_and_otherwise_nothing_new() -> None:
    history = reading()
    history.do(EndReading(OLD))
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    history.state = replace(history.state, leases={})
    history.do(CloseChannel(OLD, 31, (OffsetRange(0, 3, 9),)))
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    document = json.loads(snapshots.encode(history.state))
    assert list(document["rules"]["later_of_channels"]) == [OLD]
    plain = document["channels"][0]
    assert set(plain) == {
        *("id", "cluster", "topic", "partitions", "consumable", "registry_revision", "appeared_later"),
        *("start", "closed", "zone", "reset"),
    }
