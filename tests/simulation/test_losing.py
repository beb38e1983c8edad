"""Clusters return without records: what they lost is told to the offset, that alone is given up, all else is there."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest

from braid.client.commits import restore
from braid.client.producing.receipts import ReceiptsByLog
from braid.client.producing.route_session import RouteSession
from braid.client.producing.routes import ActiveChannel
from braid.kafka.memory.fetcher import MemoryFetcher
from braid.kafka.memory.log import Log
from braid.kernel.offset_ranges import OffsetRange, united
from braid.kernel.ports import BatchHead, KafkaAdmin, TopicPartition
from braid.kernel.resumptions import Resumption
from services.assigner.model import generations
from services.registry.kafka import drain, log_cuts
from services.registry.kafka.drain import HeldStep
from services.registry.liveness.producer_sessions import Sessions
from services.registry.model.channels import Channel
from services.registry.model.own_records import OwnRecords
from tests.simulation.caught import check_caught
from tests.simulation.losing_plans import CUTS, REASSIGNMENTS, dying, everything, losing
from tests.simulation.losing_scripts import CUT_AND_LEFT, CUT_TWICE, CUT_UNDER_PAUSED_MEMBERS, CUT_WITHOUT_MEMBERS, cut
from tests.simulation.mutants import Mutant
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.scripted import Step
from tests.simulation.seeds import Enough

SEEDS: Final = 8
BOTH_ENDS: Final = 3  # of a loss whose end is known, and of one whose end nobody knows
SEEDS_EXTENDED: Final = 100
SEEDS_MAX: Final = 40
LED_BACK: Final = (53, 61)  # by a restored store, to channels whose clusters had lost something since they were left
SEEN: Final = ("empties", "replaces", "cuts", "RecordsLost(", "CLOSED")


@pytest.mark.slow
def test_what_clusters_lose_is_told_and_given_up_to_the_offset(enough: Enough) -> None:
    seen: set[str] = set()
    for seed in range(SEEDS):
        if enough(seed, 1, seen == set(SEEN)):
            break
        result = run(losing(seed))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])
        seen |= {word for word in SEEN if any(word in line for line in result.trace)}
    assert seen == set(SEEN)  # else it proves less than it says


@pytest.mark.slow
def test_logs_cut_under_traffic_are_reported_and_read_on(
    enough: Enough,
) -> None:
    told = 0
    for seed in range(SEEDS):
        if enough(seed, 1, told > seed):
            break
        result = run(losing(seed, CUTS))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])
        told += sum("overwritten=(OffsetRange" in line for line in result.trace)
    assert told > seed  # else it proves less than it says


@pytest.mark.slow
def test_dead_producers_losses_are_reported_whoever_knew_them(enough: Enough) -> None:
    ends: set[bool] = set()
    for number, seed in enumerate(dict.fromkeys((BOTH_ENDS, *range(SEEDS // 2)))):
        if enough(number, 1, len(ends) == 2):
            break
        result = run(dying(seed))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])
        ends |= {"last=-1" in line for line in result.trace if "RecordsLost(" in line}
    assert ends == {True, False}  # with an end, and without


@pytest.mark.slow
def test_a_restored_store_reports_what_a_left_log_lost() -> None:
    result = run(everything(LED_BACK[0]), lines=60)
    assert result.green, "\n".join([*result.trace, result.message])


@pytest.mark.slow
@pytest.mark.extended
def test_a_hundred_seeds_of_all_that_loses_records() -> None:
    """With spilled commits, members that leave and restored stores: `make sim PLAN=losing SEEDS=100`."""
    for seed in range(SEEDS_EXTENDED):
        result = run(everything(seed), lines=60)
        assert result.green, "\n".join([f"seed {seed}", *result.trace, result.message])


@pytest.mark.slow
def test_reassigned_replicas_and_elected_leaders_are_no_loss(enough: Enough) -> None:
    grown = 0
    for seed in range(2):
        if enough(seed, 1, grown > 10):
            break
        result = run(losing(seed, REASSIGNMENTS))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-60:], result.message])
        assert not any("RecordsLost(" in line for line in result.trace)
        grown += sum("leader epochs grow" in line for line in result.trace)
    assert grown > 10


async def _look_at_nothing(
    admin: KafkaAdmin, channel: Channel, resumptions: Collection[Resumption]
) -> log_cuts.Finding:
    """Takes a log that goes on for one that lost nothing."""
    return log_cuts.Finding((), (), "")


_look: Final = log_cuts.look


async def _believe_offsets(
    admin: KafkaAdmin, channel: Channel, resumptions: Collection[Resumption]
) -> log_cuts.Finding:
    """Tells a loss only from where a producer wrote on itself."""
    found = await _look(admin, channel, resumptions)
    seen = (
        OffsetRange(each.partition, each.resumed, each.next - 1) for each in resumptions if each.resumed < each.next
    )
    return found._replace(lost=united(seen))


async def _judge_by_epochs(self: log_cuts.Log, told: Resumption, **how: bool) -> list[log_cuts.Span]:
    """Takes every leader that came within a connection for one that found the log cut."""
    if told.next > self.end or told.first < self.start:
        return []
    stop = (await self.span(await self.head(told.first))).stop
    return [log_cuts.Span(stop, told.next)] if stop < told.next else []


def _any_record(self: OwnRecords, head: BatchHead, position: int) -> bool:
    """Takes whatever lies at an offset for what was acknowledged there."""
    return True


async def _trust(claimed: object, bounds: tuple[int, int], *how: object) -> restore.LogBounds:
    """Believes a commit whatever leaders came since."""
    return restore.LogBounds(*bounds, bounds[1])


def _any_log(self: MemoryFetcher, partition: TopicPartition, log: Log, position: int) -> None:
    """Goes on at a position whatever lies below it."""


async def _see_nothing_cut(admin: object, channel: Channel) -> HeldStep | None:
    """Seals at once: its canary may come to lie where a lost record lay."""
    return None


def _prove_nothing(channel: Channel, canaries: Mapping[int, int]) -> None:
    """Takes canaries to lie where nothing lay before."""


def _forget(self: ReceiptsByLog, channel: ActiveChannel) -> None:
    """Remembers nothing of a log that is left."""
    del self._used[channel.id, channel.place]


def _is_current(*arguments: object) -> bool:
    """Takes what the backup knows for what is."""
    return False


_resumed: Final = RouteSession.resumed


def _tell_once(self: RouteSession, channel: ActiveChannel, resumption: Resumption) -> None:
    """A defect: a truncation is reported to the present leader, and to no later one."""
    _resumed(self, channel, resumption)
    del self._hello.resumed[:]


_CANARIES_BELIEVED: Final = [(drain, "_cut_short", _see_nothing_cut), (drain, "_hidden", _prove_nothing)]


def _heard(*arguments: object) -> bool:
    """Takes the producers of this term for all there were."""
    return False


def _is_caught(mutant: Mutant, seeds: tuple[int, ...], plan: Callable[[int], Plan]) -> bool:
    """Whether a run shows it by the invariant that is to: of a seed known for it, or of another when draws changed."""
    for seed in dict.fromkeys((*seeds, *range(SEEDS_MAX))):
        with mutant.at_work():
            result = run(plan(seed), lines=1)
        if not result.green and result.invariant.startswith(mutant.invariant):
            print(f"{mutant.name}: seed {seed}: {result.message}")
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "script"),
    [
        (Mutant("a canary hides a loss", "I11 losses", _CANARIES_BELIEVED), CUT_AND_LEFT),
        (Mutant("nobody looks for cuts", "I11 losses", [(log_cuts, "look", _look_at_nothing)]), CUT_TWICE),
        (Mutant("epochs prove a cut", "I11 losses", [(log_cuts.Log, "lost", _judge_by_epochs)]), CUT_TWICE),
        (Mutant("any record proves there was none", "I11 losses", [(OwnRecords, "wrote", _any_record)]), CUT_TWICE),
        (Mutant("a cut begins where it is seen", "I11 losses", [(log_cuts, "look", _believe_offsets)]), CUT_TWICE),
        (
            Mutant("members go on behind a cut", "I3", [(MemoryFetcher, "_check_same", _any_log)]),
            CUT_UNDER_PAUSED_MEMBERS,
        ),
        (
            Mutant("a commit outlives a cut", "I1 zero loss", [(restore, "_provable", _trust)], shown_by=1),
            CUT_WITHOUT_MEMBERS,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Mutant) else "",
)
def test_a_mutant_is_caught_by_a_script(mutant: Mutant, script: Sequence[Step]) -> None:
    check_caught(mutant, cut(script))


@pytest.mark.slow
def test_a_registry_claiming_to_know_all_producers_is_caught() -> None:
    mutant = Mutant("a registry believes to know every producer", "I11 losses", [(Sessions, "_unheard", _heard)])
    assert _is_caught(mutant, (2,), lambda seed: replace(dying(seed), settle_seconds=30.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "seeds"),
    [
        (
            Mutant("leases of a backup keep their epochs", "I4", [(generations, "may_be_outdated", _is_current)]),
            (15, 14),
        ),
        pytest.param(
            Mutant("receipts go with the route", "I11 losses", [(ReceiptsByLog, "leave", _forget)]),
            LED_BACK,
            marks=pytest.mark.extended,
        ),
        pytest.param(
            Mutant("losses are told once", "I11 losses", [(RouteSession, "resumed", _tell_once)]),
            (15,),
            marks=pytest.mark.extended,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Mutant) else "",
)
def test_a_mutant_that_trusts_a_backup_is_caught(mutant: Mutant, seeds: tuple[int, ...]) -> None:
    assert _is_caught(mutant, seeds, everything)
