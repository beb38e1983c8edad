"""How many copies there are to be, when something is to be done about it, and how many an append needs."""

from dataclasses import replace

import pytest

from services.registry.model.belonging import Belonging
from services.registry.model.channels import Channel, ChannelRef, ChannelState
from services.registry.model.streams import Stream, StreamSpec
from services.registry.policy.copy_counts import in_sync_change, is_due, throttled, unthrottled, wanted_copies
from services.registry.policy.world import World
from tests.unit.registry.histories import cluster

LIVE = ChannelRef("live", 1)
CHANNEL = Channel(LIVE, "east", "t", 4, ChannelState.ACTIVE, copies=2, kafka_cluster_id="kafka-east")
DECLARED = StreamSpec({"live": 4}, replication_factor=2)
EAST = replace(cluster("east"), usual_brokers=(1, 2, 3))


def due(channel: Channel = CHANNEL, spec: StreamSpec = DECLARED, east: object = EAST) -> bool:
    world = World(0, {"east": east}, {})  # type: ignore[dict-item]
    return is_due(world, Stream("logs", exists=True, spec=spec), channel)


def test_a_declared_count_is_wanted_or_else_what_brokers_allow() -> None:
    open_spec = replace(DECLARED, replication_factor=0)
    assert wanted_copies(DECLARED, EAST, replace(CHANNEL, copies=3)) == 2
    assert wanted_copies(open_spec, EAST, CHANNEL) == 3
    assert wanted_copies(open_spec, EAST, replace(CHANNEL, copies=5)) == 5
    assert wanted_copies(open_spec, replace(EAST, usual_brokers=()), CHANNEL) == 2


def test_what_is_settled_is_left_alone_whatever_the_cluster_says() -> None:
    assert not due()
    assert due(spec=replace(DECLARED, replication_factor=3))
    assert due(replace(CHANNEL, copies=0))  # of a history of an earlier release


@pytest.mark.parametrize("state", [each for each in ChannelState if each not in (ChannelState.ACTIVE,)])
def test_a_reassignment_starts_where_records_go_ends_everywhere(state: ChannelState) -> None:
    changed = replace(CHANNEL, state=state, copies=1)
    assert due(changed) == (state is ChannelState.STANDBY)
    assert due(replace(changed, copies_intended=2))


def test_nothing_begins_on_a_leaving_topic_or_a_foreign_cluster() -> None:
    changed = replace(CHANNEL, copies=1)
    assert due(changed)
    assert not due(replace(changed, retiring=True)) and not due(replace(changed, discarded=True))
    assert not due(replace(changed, kafka_cluster_id="another"))
    foreign = replace(EAST, belonging=Belonging(foreign_mesh="theirs"))
    assert not due(changed, east=foreign) and not due(replace(changed, copies_intended=2), east=foreign)


@pytest.mark.parametrize(
    ("copies", "intended", "declared", "needed"),
    [
        (1, 0, None, "1"),  # whatever the cluster asks for
        (2, 0, None, None),
        (3, 0, None, "2"),
        (1, 3, None, "1"),  # an append must not wait for copies that are not there yet
        (3, 1, None, "1"),
        (3, 4, None, "2"),
        (3, 0, "3", "3"),
        (1, 3, "2", "1"),
        (3, 1, "2", "1"),
        (1, 0, "2", "2"),  # as it is declared
    ],
)
def test_an_append_needs_no_more_copies_than_there_are(
    copies: int, intended: int, declared: str | None, needed: str | None
) -> None:
    spec = replace(DECLARED, topic_config={"min.insync.replicas": declared} if declared else {})
    channel = replace(CHANNEL, copies=copies, copies_intended=intended)
    assert in_sync_change(spec, channel) == {"min.insync.replicas": needed}


def test_nothing_is_said_of_copies_that_are_not_known() -> None:
    assert in_sync_change(DECLARED, replace(CHANNEL, copies=0)) == {}


def test_only_new_copies_are_throttled_and_declared_ones_return() -> None:
    assert throttled({1: ((2,), (3, 1)), 0: ((1, 2), ())}) == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:2",
        "follower.replication.throttled.replicas": "1:3,1:1",
    }
    own = {"leader.replication.throttled.replicas": "*"}
    assert unthrottled(replace(DECLARED, topic_config=own)) == {
        "leader.replication.throttled.replicas": "*",
        "follower.replication.throttled.replicas": None,
    }
