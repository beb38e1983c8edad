"""The kinds of a cluster's topics, as far as a restored history can tell."""

from services.registry.model.channels import ChannelRef
from services.registry.model.stream_commands import IntendRetirement, RecordFound, RecordRetired
from services.registry.policy.comparison import Comparison, compare
from tests.unit.registry.histories import StreamHistory, created, provision


def compared(history: StreamHistory, cluster: str, *topics: str) -> Comparison:
    return compare({"logs": history.state}, cluster, "braid.", topics)


def found(history: StreamHistory, generation: int, cluster: str) -> None:
    ref, topic = ChannelRef("live", generation), f"braid.logs.live.{generation}"
    history.run(RecordFound(ref, cluster, topic, 4, b"found", f"kafka-{cluster}"))


def test_a_later_channel_is_found_however_far_generations_went() -> None:
    """Its cluster was away: a later one was found on another cluster first."""
    history = created()
    found(history, 7, "west")
    assert [str(each) for each in compared(history, "north", "braid.logs.live.5").later.values()] == ["logs/live/5"]


def test_a_generation_older_than_all_remembered_is_an_orphan() -> None:
    history = created()
    spare = provision(history, "live", "west", 4)
    topic = history.state.channel(spare).topic
    for command in (IntendRetirement(spare), RecordRetired(spare)):
        history.run(command)
    assert compared(history, "west", topic, "braid.logs.live.0").orphans == ["braid.logs.live.0", topic]


def test_a_spare_without_a_topic_is_gone_where_it_was_made() -> None:
    history = created()
    spare = provision(history, "live", "west", 4)
    topic = history.state.channel(spare).topic
    assert [each.ref for _, each in compared(history, "west").gone] == [spare]
    assert not compared(history, "west", topic).gone and not compared(history, "north").gone
