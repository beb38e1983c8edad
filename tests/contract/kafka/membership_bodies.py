"""The contract of `KafkaMembership`: one membership of a group, joined in two steps, bumped, taken over, lost."""

from typing import Final

import pytest

from braid.kernel.errors import ClusterUnavailable, Fenced, GroupOccupied, Refused
from braid.kernel.ports import Committed, Generation
from tests.contract.kafka.rig import Body, Rig


async def a_bump_refuses_every_earlier_generation(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    member = await rig.membership.reserve(group)
    first = await rig.membership.join(group, member)
    assert first.member_id == member
    await rig.offsets.commit(group, {partition: Committed(5, "first")}, first)
    second = await rig.membership.join(group, member)
    assert second.member_id == member
    assert second.generation > first.generation
    for stale in (first, Generation(second.generation, "somebody"), None):
        with pytest.raises(Fenced) as refused:
            await rig.offsets.commit(group, {partition: Committed(9, "stale")}, stale)
        assert ("unknown_member" in refused.value.metadata) == (stale is None or stale.member_id != member)
    await rig.offsets.commit(group, {partition: Committed(6, "second")}, second)
    assert (await rig.offsets.committed(group, [partition]))[partition] == Committed(6, "second")


async def another_client_takes_over_with_the_same_member(rig: Rig) -> None:
    group, next_leader = f"{rig.prefix}-group", rig.new_membership()
    first = await rig.membership.join(group, await rig.membership.reserve(group))
    assert await next_leader.reserve(group) == first.member_id
    await next_leader.renew(group, first)
    second = await next_leader.join(group, first.member_id)
    assert second.member_id == first.member_id
    with pytest.raises(Fenced):
        await rig.membership.renew(group, first)
    await rig.membership.renew(group, second)


async def an_unknown_member_is_fenced_and_reserves_anew(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    with pytest.raises(Fenced) as refused:
        await rig.membership.join(group, "nobody-knows-me")
    assert "unknown_member" in refused.value.metadata
    with pytest.raises(Fenced):
        await rig.membership.renew(group, Generation(1, "nobody-knows-me"))
    joined = await rig.membership.join(group, await rig.membership.reserve(group))
    await rig.membership.leave(group, "nobody-knows-me")
    await rig.membership.renew(group, joined)
    await rig.membership.leave(group, joined.member_id)
    await rig.membership.leave(group, joined.member_id)
    with pytest.raises(Fenced):
        await rig.membership.renew(group, joined)
    with pytest.raises(Fenced):
        await rig.offsets.commit(group, {partition: Committed(9, "stale")}, joined)
    await rig.offsets.commit(group, {partition: Committed(1, "plain")}, None)
    again = await rig.membership.join(group, await rig.membership.reserve(group))
    assert again > joined or again.member_id != joined.member_id


async def a_group_with_commits_and_no_members_is_free(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    await rig.offsets.commit(group, {partition: Committed(5, "start")}, None)
    await rig.membership.join(group, await rig.membership.reserve(group))
    assert (await rig.offsets.committed(group, [partition]))[partition] == Committed(5, "start")


async def a_group_without_its_member_goes_on_plainly_once_it_came_anew(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    joined = await rig.membership.join(group, await rig.membership.reserve(group))
    await rig.offsets.commit(group, {partition: Committed(5, "fenced")}, joined)
    with pytest.raises(Refused):
        await rig.offsets.delete_group(group)
    assert await rig.offsets.committed(group, None) == {partition: Committed(5, "fenced")}
    await rig.membership.leave(group, joined.member_id)
    await rig.offsets.delete_group(group)
    assert await rig.offsets.committed(group, None) == {}
    with pytest.raises(Fenced):
        await rig.offsets.commit(group, {partition: Committed(9, "stale")}, joined)
    await rig.offsets.commit(group, {partition: Committed(5, "plain")}, None)
    assert await rig.offsets.committed(group, None) == {partition: Committed(5, "plain")}


async def strays_and_we_keep_each_other_out(rig: Rig) -> None:
    ours, theirs = f"{rig.prefix}-ours", f"{rig.prefix}-theirs"
    joined = await rig.membership.join(ours, await rig.membership.reserve(ours))
    assert not await rig.faults.occupy(ours)
    await rig.membership.renew(ours, joined)
    assert await rig.faults.occupy(theirs)
    for refused in (rig.membership.reserve, rig.membership.check_vacant):
        with pytest.raises(GroupOccupied):
            await refused(theirs)


async def asking_for_vacancy_holds_nothing_up(rig: Rig) -> None:
    group = f"{rig.prefix}-group"
    await rig.membership.check_vacant(group)
    member = await rig.membership.reserve(group)
    await rig.membership.join(group, member)
    await rig.membership.check_vacant(group)
    await rig.membership.join(group, member)


async def an_unused_reservation_lapses(rig: Rig) -> None:
    group = f"{rig.prefix}-group"
    unused, member = await rig.membership.reserve(group), await rig.membership.reserve(group)
    assert unused != member
    await rig.membership.join(group, member)
    with pytest.raises(ClusterUnavailable):
        await rig.membership.join(group, member)  # waits for the other
    await rig.membership.join(group, member)


async def a_generation_survives_its_cluster(rig: Rig) -> None:
    partition, group = await rig.partition(), f"{rig.prefix}-group"
    joined = await rig.membership.join(group, await rig.membership.reserve(group))
    await rig.offsets.commit(group, {partition: Committed(5, "before")}, joined)
    await rig.faults.kill()
    await rig.faults.start()
    await rig.offsets.commit(group, {partition: Committed(6, "after")}, joined)
    await rig.membership.renew(group, joined)
    assert (await rig.offsets.committed(group, [partition]))[partition] == Committed(6, "after")


BODIES: Final[list[Body]] = [
    a_bump_refuses_every_earlier_generation,
    another_client_takes_over_with_the_same_member,
    an_unknown_member_is_fenced_and_reserves_anew,
    a_group_with_commits_and_no_members_is_free,
    a_group_without_its_member_goes_on_plainly_once_it_came_anew,
    strays_and_we_keep_each_other_out,
    asking_for_vacancy_holds_nothing_up,
    an_unused_reservation_lapses,
    a_generation_survives_its_cluster,
]
