"""The contract of `KafkaOffsets`: commits with metadata, plain and by borrowed generation."""

from typing import Final

import pytest

from braid.kernel.envelope import PREFIX
from braid.kernel.envelope.base46341 import pack
from braid.kernel.errors import Fenced, Invalid, NotFound, Refused
from braid.kernel.ports import Committed, Generation, TopicPartition
from tests.contract.kafka.rig import Body, Rig

NONE: Final = Committed(-1, "")


async def commits_are_read_back_with_metadata(rig: Rig) -> None:
    name, group = await rig.topic(3), f"{rig.prefix}-group"
    first, second, third = (TopicPartition(name, number) for number in range(3))
    assert await rig.offsets.committed(group, [first]) == {first: NONE}
    await rig.offsets.commit(group, {first: Committed(5, "ß" * 4096), second: Committed(0, "")}, None)
    expected = {first: Committed(5, "ß" * 4096), second: Committed(0, ""), third: NONE}
    assert await rig.offsets.committed(group, [first, second, third]) == expected
    assert await rig.new_offsets().committed(group, [first, second, third]) == expected
    assert await rig.offsets.committed(group, None) == {at: known for at, known in expected.items() if known != NONE}
    assert await rig.offsets.committed(f"{group}-unknown", None) == {}
    assert group in await rig.offsets.groups() and f"{group}-unknown" not in await rig.offsets.groups()
    await rig.offsets.commit(group, {first: Committed(3, "back")}, None)
    assert (await rig.offsets.committed(group, [first]))[first] == Committed(3, "back")
    await rig.offsets.commit(group, {}, None)
    assert await rig.offsets.committed(group, []) == {}


async def too_much_metadata_is_invalid(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    for metadata in ("m" * 4_097, full_envelope() + "\uf8d3"):
        with pytest.raises(Invalid) as refused:
            await rig.offsets.commit(group, {partition: Committed(5, metadata)}, None)
        assert refused.value.field == "metadata"
        assert await rig.offsets.committed(group, [partition]) == {partition: NONE}


def full_envelope() -> str:
    """Metadata of an envelope that fills a broker's limit."""
    packed = PREFIX + pack(bytes(range(251)) * 40)[: 4_096 - len(PREFIX)]
    assert len(packed) == 4_096
    return packed


async def every_character_of_an_envelope_is_kept(rig: Rig) -> None:
    name, group = await rig.topic(13), f"{rig.prefix}-group"
    points = [*range(0x3400, 0xA48D), *range(0xAC00, 0xD7A4), *range(0xE000, 0xF8D4)]
    alphabet = "".join(map(chr, points))
    texts = [alphabet[start : start + 4_096] for start in range(0, len(alphabet), 4_096)]
    whole = {TopicPartition(name, number): Committed(5, text) for number, text in enumerate(texts)}
    whole[TopicPartition(name, 12)] = Committed(5, full_envelope())
    await rig.offsets.commit(group, whole, None)
    assert await rig.new_offsets().committed(group, list(whole)) == whole


async def a_commit_for_no_topic_is_not_found(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await rig.offsets.commit(f"{rig.prefix}-group", {TopicPartition("no-such-topic", 0): Committed(1, "")}, None)


async def groups_have_states_and_can_be_deleted(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    assert await rig.offsets.group_state(group) == "Dead"
    await rig.offsets.delete_group(group)
    await rig.offsets.commit(group, {partition: Committed(5, "x")}, None)
    assert await rig.offsets.group_state(group) == "Empty"
    await rig.offsets.delete_group(group)
    assert await rig.offsets.group_state(group) == "Dead"
    assert await rig.offsets.committed(group, [partition]) == {partition: NONE}


async def generations_fence_commits(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    first = await rig.faults.join(group, "")
    assert await rig.offsets.group_state(group) == "Stable"
    await rig.offsets.commit(group, {partition: Committed(5, "first")}, first)
    second = await rig.faults.join(group, first.member_id)
    assert second.generation > first.generation
    stale = (first, Generation(second.generation, "somebody"), Generation(second.generation + 1, first.member_id), None)
    for generation in stale:
        with pytest.raises(Fenced):
            await rig.offsets.commit(group, {partition: Committed(99, "stale")}, generation)
    assert (await rig.offsets.committed(group, [partition]))[partition] == Committed(5, "first")
    await rig.offsets.commit(group, {partition: Committed(6, "second")}, second)
    assert (await rig.new_offsets().committed(group, [partition]))[partition] == Committed(6, "second")
    with pytest.raises(Refused):
        await rig.offsets.delete_group(group)


async def a_generation_of_no_group_is_fenced(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    with pytest.raises(Fenced):
        await rig.offsets.commit(group, {partition: Committed(5, "")}, Generation(3, "somebody"))
    assert await rig.offsets.committed(group, [partition]) == {partition: NONE}


BODIES: Final[list[Body]] = [
    commits_are_read_back_with_metadata,
    every_character_of_an_envelope_is_kept,
    too_much_metadata_is_invalid,
    a_commit_for_no_topic_is_not_found,
    groups_have_states_and_can_be_deleted,
    generations_fence_commits,
    a_generation_of_no_group_is_fenced,
]
