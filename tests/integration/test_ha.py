"""High availability of the assigner on real processes: what may befall a leader, its store and its wires moves nothing.

Two assigners, three members in two groups (one fenced by generations, one exclusive), real Kafka; over etcd of three
members, and over SQLite. The stories play one after the other on the same processes; after each the whole journal is
judged: histories, members' logs, handlers, and every commit that the broker took.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from devmesh.processes.brokers import KafkaBroker
from testbed.checkers import Checker, check, facts
from testbed.checkers.epochs import OneLeaderAtATime, RisingEpochs
from testbed.checkers.fencing import FencedCommits
from testbed.checkers.holders import ExclusiveHolders
from testbed.checkers.leases import LEASES
from testbed.etcd_process import EtcdCluster, etcd_cluster
from testbed.members.assigner_pair import (
    ASSIGNERS,
    GRACE_SECONDS,
    PARTITIONS,
    SESSION_TTL_SECONDS,
    AssignerPair,
    Shape,
    now_ms,
)
from testbed.patience import Deadline, until
from tests.support.judging import judge

LEASE_SECONDS: Final = 1.0
OWNED_SECONDS: Final = 2 * 4.0  # after healing every partition has an owner (I13), with twofold slack
SHARE_MIN: Final = 0.97  # of the machine's time: else members may be silent for a lease, and lose it as they should
FROZEN_SECONDS: Final = 3 * LEASE_SECONDS

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def etcd(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EtcdCluster]:
    """Three members."""
    async with etcd_cluster(tmp_path_factory.mktemp("etcd"), 3) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole_on_etcd(
    etcd: EtcdCluster, broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AssignerPair]:
    """Everything, over etcd."""
    store = f"etcd://{','.join(etcd.endpoints)}"
    shape = Shape("ha-etcd", lease_seconds=LEASE_SECONDS)
    pair = AssignerPair(shape, tmp_path_factory.mktemp("ha"), broker.bootstrap, store, etcd.endpoints)
    async with AsyncExitStack() as stack:
        await pair.start(stack)
        yield pair


@pytest_asyncio.fixture(loop_scope="module")
async def on_etcd(whole_on_etcd: AssignerPair) -> AsyncIterator[AssignerPair]:
    """A pair that is mended whatever happens in the story."""
    yield whole_on_etcd
    whole_on_etcd.mend()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on_sqlite(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AssignerPair]:
    """Everything, over one file."""
    directory: Path = tmp_path_factory.mktemp("ha-file")
    shape = Shape("ha-sqlite", lease_seconds=LEASE_SECONDS)
    pair = AssignerPair(shape, directory, broker.bootstrap, f"sqlite://{directory}/store.db")
    async with AsyncExitStack() as stack:
        await pair.start(stack)
        yield pair


# --- over etcd: first what may move nothing; after the others, leases may still be on their way to an even split


async def test_a_killed_leader_moves_nothing(on_etcd: AssignerPair) -> None:
    async with steady(on_etcd) as story:
        await _kill(story)


@pytest.mark.extended
async def test_a_frozen_leader_moves_nothing_then_or_when_it_goes_on(on_etcd: AssignerPair) -> None:
    async with steady(on_etcd) as story:
        await _freeze(story)


async def test_a_leader_cut_off_from_its_store_moves_nothing(on_etcd: AssignerPair) -> None:
    """Delayed messages of both sides arrive when the wires are mended, and change nothing."""
    async with steady(on_etcd) as story:
        await _cut_from_store(story, requests=True, answers=True)


@pytest.mark.extended
async def test_a_leader_half_cut_off_from_its_store_moves_nothing(on_etcd: AssignerPair) -> None:
    """First the one's words are lost on the way, then what the next one is told."""
    async with steady(on_etcd) as story:
        await _cut_from_store(story, requests=True, answers=False)
        await _cut_from_store(await story.next(), requests=False, answers=True)


async def test_members_without_any_assigner_go_on_and_nothing_moves(on_etcd: AssignerPair) -> None:
    """Both are frozen for longer than the leader's session: whichever leads then, members keep their leases."""
    async with steady(on_etcd) as story:
        for name in ASSIGNERS:
            on_etcd.pause(name)
        given = Deadline(1.0)
        await asyncio.sleep(SESSION_TTL_SECONDS + LEASE_SECONDS)
        worked = on_etcd.worked_since(now_ms() - 1000 * LEASE_SECONDS, on_etcd.stream)
        judge(bool(worked), given.share, SHARE_MIN, "the fenced group stopped")
        assert not on_etcd.worked_since(story.began_ms + 1000 * LEASE_SECONDS, on_etcd.groups[1])
        for name in ASSIGNERS:
            on_etcd.resume(name)


async def test_a_killed_store_leader_moves_nothing_and_decisions_go_on(
    on_etcd: AssignerPair, etcd: EtcdCluster
) -> None:
    node = await etcd.leader()
    async with steady(on_etcd) as story:
        node.kill()
        await on_etcd.settled(now_ms() + 1000 * SESSION_TTL_SECONDS)  # whoever leads by then
    victim = on_etcd.members[0]
    on_etcd.kill(victim)
    took = await until(lambda: _owned(on_etcd), "others have its leases", OWNED_SECONDS)
    print(f"a member killed while the store has two of three: owned again after {took:.2f} s; {story.leader} led")
    etcd.restart(node)
    on_etcd.start_member()
    await on_etcd.settled()
    await judge_journal(on_etcd)


async def test_members_cut_off_from_the_leader_or_everybody_come_back(on_etcd: AssignerPair) -> None:
    """A leader that is alone goes on leading, and no follower takes its place."""
    await _survives_silence(on_etcd, [await on_etcd.leader()])
    await _survives_silence(on_etcd, ASSIGNERS)


async def test_a_grant_that_was_appended_and_not_told_is_not_forgotten(on_etcd: AssignerPair) -> None:
    """The next leader finds it: the lease is told under that epoch, or granted anew under a higher one."""
    victim, group = on_etcd.members[0], on_etcd.stream
    for edge in on_etcd.edges.values():  # before the death, which a grant follows at once; and whoever leads by then
        edge.hold(requests=False)
    before = len(await on_etcd.grants(group))
    lost = [lease for lease, (name, _) in on_etcd.holdings()[group].items() if name == victim]
    for name in on_etcd.members:
        on_etcd.befell(facts.CutOff(name))
    on_etcd.kill(victim)

    async def granted() -> bool:
        return {grant.lease for grant in (await on_etcd.grants(group))[before:]} >= set(lost)

    await until(granted, f"the history grants {lost} anew", poll=0.01)
    leader = await on_etcd.leader()
    on_etcd.kill(leader)
    for edge in on_etcd.edges.values():
        await edge.cut()  # with what was said last
    unheard = {grant.lease: grant.epoch for grant in (await on_etcd.grants(group))[before:]}
    assert {lease: on_etcd.holdings()[group].get(lease) for lease in lost} == dict.fromkeys(lost)
    for edge in on_etcd.edges.values():
        edge.mend()
    await on_etcd.settled(now_ms())
    for lease, (_, epoch) in on_etcd.holdings()[group].items():
        assert epoch >= unheard.get(lease, 0), "a grant was forgotten"
    await on_etcd.start_assigner(leader)
    await on_etcd.settled()
    await judge_journal(on_etcd)


# --- over SQLite


@pytest.mark.extended
async def test_killed_or_frozen_leaders_over_a_file_move_nothing(on_sqlite: AssignerPair) -> None:
    async with steady(on_sqlite) as story:
        await _kill(story)
        await _freeze(await story.next())


# --- what befalls


class Story:
    """A fault of a leader, from just before it on."""

    def __init__(self, pair: AssignerPair, leader: str) -> None:
        self.pair = pair
        self.leader = leader
        self.began_ms = now_ms()

    async def next(self) -> "Story":
        """A story about the present leader."""
        return Story(self.pair, await self.pair.leader())

    async def next_leader(self) -> None:
        """Waits until another leads, and answers every member's heartbeats; tells how long that took."""
        deadline = Deadline(1.0)
        led = await self.pair.leader(other_than=self.leader)
        led_ms = now_ms() - self.began_ms
        heard_ms = await self.pair.settled(self.began_ms + led_ms)
        print(
            f"{led} leads after {led_ms:.0f} ms, all heartbeats are answered {heard_ms:.0f} ms later"
            f" ({deadline.share:.0%} of the time given)"
        )


@asynccontextmanager
async def steady(pair: AssignerPair) -> AsyncIterator[Story]:
    """Nothing that happens within may move a lease of the fenced group; what is broken is mended at the end.

    Where the machine withheld its cores, members may have been silent for as long as those that are cut off.
    """
    before = pair.holdings()[pair.stream]
    story, deadline = Story(pair, await pair.leader()), Deadline(1.0)
    yield story
    await pair.settled(now_ms(), OWNED_SECONDS)
    await asyncio.sleep(GRACE_SECONDS)  # past it a new leader may expire members it has not heard of
    held, share = pair.holdings()[pair.stream] == before, deadline.share
    if share < SHARE_MIN:
        for name in pair.members:
            pair.befell(facts.CutOff(name), story.began_ms)
    else:
        pair.befell(facts.Steady(pair.stream, True), story.began_ms)
        pair.befell(facts.Steady(pair.stream, False))
    await judge_journal(pair)
    judge(held, share, SHARE_MIN, "a lease of the fenced group moved")


async def _kill(story: Story) -> None:
    story.pair.kill(story.leader)
    await story.next_leader()
    await story.pair.start_assigner(story.leader)


async def _freeze(story: Story) -> None:
    story.pair.pause(story.leader)
    await story.next_leader()
    await asyncio.sleep(max(0.0, FROZEN_SECONDS - (now_ms() - story.began_ms) / 1000))
    await story.pair.go_on(story.leader)


async def _cut_from_store(story: Story, *, requests: bool, answers: bool) -> None:
    for wire in story.pair.storage[story.leader]:
        wire.hold(requests=requests, answers=answers)
    await story.next_leader()
    for wire in story.pair.storage[story.leader]:
        wire.mend()


async def _survives_silence(pair: AssignerPair, assigners: Sequence[str]) -> None:
    """Members hear nothing of these assigners for longer than their lease, then everything at once.

    A leader that lives takes their leases away, and fences them; they are granted anew.
    """
    began = now_ms()
    for name in pair.members:
        pair.befell(facts.CutOff(name))
    for name in assigners:
        pair.edges[name].hold()
    await asyncio.sleep(FROZEN_SECONDS)
    assert not pair.worked_since(began + 1000 * LEASE_SECONDS, pair.groups[1]), "the exclusive group went on"
    for name in assigners:
        pair.edges[name].mend()
    took = await pair.settled(now_ms(), OWNED_SECONDS)
    print(f"members cut off for {FROZEN_SECONDS:g} s own everything again within {took:.0f} ms")
    await judge_journal(pair)


def _owned(pair: AssignerPair) -> bool:
    counts = [len(leases) for leases in pair.holdings().values()]
    return counts == [PARTITIONS] * len(counts)


async def judge_journal(pair: AssignerPair) -> None:
    """Holds everything so far to the invariants; what earlier stories violated is theirs."""
    checkers: list[Checker] = [kind() for kind in LEASES]
    checkers += [RisingEpochs(), OneLeaderAtATime(), FencedCommits(), ExclusiveHolders(pair.groups[1])]
    journal = await pair.journal()
    found = check(checkers, [fact for _, fact in journal], quiescent=False)
    mine = [violation for violation in found if journal[violation.fact][0] >= pair.judged_us]
    pair.judged_us = round(now_ms() * 1000)
    given, pair.given = pair.given, Deadline(1.0)
    judge(not mine, given.share, SHARE_MIN, "\n".join(map(str, mine[:10])))
