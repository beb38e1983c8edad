"""The events of a channel that was written to without its history knowing of it."""

from services.registry.model.channels import ChannelRef, ChannelState
from services.registry.model.stream_commands import IntendRetirement, RecordFound
from services.registry.model.stream_events import ChannelPlanned, ChannelProvisioned, TrafficMoved
from tests.unit.registry.histories import StreamHistory, created, provision

LATER = ChannelRef("live", 7)


def found(ref: ChannelRef, cluster: str = "west", partitions: int = 4) -> RecordFound:
    return RecordFound(
        ref, cluster, f"braid.logs.{ref.lane}.{ref.generation}", partitions, b"found", f"kafka-{cluster}"
    )


def draining(history: StreamHistory) -> list[tuple[ChannelRef, str, int]]:
    channels = history.state.channels
    return [(each.ref, each.topic, each.partitions) for each in channels if each.state is ChannelState.DRAINING]


def test_a_spare_that_was_written_to_drains_and_the_route_stays() -> None:
    history = created()
    spare = provision(history, "live", "west", 4)
    history.run(IntendRetirement(spare))
    before, active = history.state.route_revision, [each.ref for each in history.state.active("live")]
    assert [type(each) for each in history.run(found(spare))] == [TrafficMoved, TrafficMoved]
    channel = history.state.channel(spare)
    assert channel.state is ChannelState.DRAINING and not channel.retiring and not channel.activated_epoch
    assert channel.drain_revision == history.state.route_revision > before + 1_000_000
    assert [each.ref for each in history.state.active("live")] == active
    assert history.run(found(spare)) == []


def test_a_channel_planned_after_the_backup_keeps_its_generation() -> None:
    history = created()
    events = history.run(found(LATER, partitions=9))
    assert [type(each) for each in events] == [ChannelPlanned, ChannelProvisioned, TrafficMoved, TrafficMoved]
    assert draining(history) == [(LATER, "braid.logs.live.7", 9)]
    assert history.state.generations["live"] == 7
    assert history.state.spec.lanes["live"] == 4


def test_a_generation_taken_meanwhile_is_not_given_twice() -> None:
    history = created()
    spare = provision(history, "live", "west", 4)
    history.run(found(spare, cluster="north"))
    assert draining(history) == [(ChannelRef("live", spare.generation + 1), "braid.logs.live.2", 4)]
    assert history.state.channel(spare).state is ChannelState.STANDBY


def test_one_that_carries_traffic_already_is_no_news() -> None:
    history = created()
    assert history.run(found(ChannelRef("live", 1), cluster="east")) == []
