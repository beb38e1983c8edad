"""A drill passes only when nothing is lost and all came in time; each way to fail is told."""

from collections.abc import Callable

import pytest

from braid.drill.evidence import Evidence, ledger_line, sink_line
from braid.drill.plan import DrillKind
from braid.drill.verdict import DrillInstants, DrillVerdict
from braid.kernel.limits.registry.drill import DRILL_VERDICT_CHARACTERS_MAX
from tests.unit.drill.plans import plan

SECOND = 1_000_000_000


def played(kind: DrillKind = DrillKind.CLUSTER_LOSS) -> DrillVerdict:
    """A drill in which all went well: four records on east, the failure at 10 s, four on west from 12 s."""
    evidence = Evidence()
    for at in (*range(6, 10), *range(12, 16)):
        lane, cluster = ("live", "bulk")[at % 2], "east" if at < 10 else "west"
        evidence.take_ledger([ledger_line(str(at), cluster, lane, at * SECOND)])
        member, epoch = ("m0", 1) if at < 10 else ("m1", 2)
        evidence.take_sink(member, [sink_line(str(at), f"{lane}/0", epoch, at * SECOND)])
    measured = DrillInstants(5 * SECOND, 10 * SECOND, 14 * SECOND, 15 * SECOND, 16 * SECOND, "m0", {"live/0": 1})
    return DrillVerdict(plan(kind, 2 if kind is DrillKind.BROKER_LOSS else -1), measured, evidence)


@pytest.mark.parametrize("kind", list(DrillKind))
def test_a_drill_in_which_all_went_well_passes(kind: DrillKind) -> None:
    verdict = played(kind)
    assert [*verdict.complaints()] == []
    assert verdict.passed
    assert len(verdict.summary()) < DRILL_VERDICT_CHARACTERS_MAX


def test_the_figures() -> None:
    verdict = played()
    assert verdict.document()["records"] == {"acknowledged": 8, "handled": 8, "lost": 0, "repeated": 0}
    assert (verdict.first_ack_elsewhere_ms, verdict.longest_stall_ms, verdict.drained_ms) == (3_000, 3_000, 1_000)
    assert "takeoverMs" not in verdict.document()
    assert played(DrillKind.MEMBER_LOSS).takeover_ms == 2_000
    assert "firstAckElsewhereMs" not in played(DrillKind.MEMBER_LOSS).document()


def lose_a_record(verdict: DrillVerdict) -> None:
    verdict.evidence.take_ledger([ledger_line("gone", "west", "live", 15 * SECOND)])


def stay(verdict: DrillVerdict) -> None:
    verdict.evidence.acknowledged.update(
        {id: each._replace(cluster="east") for id, each in verdict.evidence.acknowledged.items()}
    )


def leave_a_tail(verdict: DrillVerdict) -> None:
    verdict.measured.drained_ns = None


def fail(verdict: DrillVerdict) -> None:
    verdict.measured.failure = "the mesh went away"


def acknowledge_nothing(verdict: DrillVerdict) -> None:
    verdict.evidence.acknowledged.clear()


def strand_a_partition(verdict: DrillVerdict) -> None:
    verdict.measured.leases = {"live/0": 1, "bulk/1": 1}


@pytest.mark.parametrize(
    ("kind", "spoil", "said"),
    [
        (DrillKind.CLUSTER_LOSS, lose_a_record, "1 acknowledged records were not handled: gone (west)"),
        (DrillKind.MOVE, stay, "no other cluster took the traffic of east"),
        (DrillKind.BROKER_LOSS, leave_a_tail, "what was left on east was not drained"),
        (DrillKind.MOVE, fail, "the mesh went away"),
        (DrillKind.MEMBER_LOSS, acknowledge_nothing, "no record was acknowledged"),
        (DrillKind.MEMBER_LOSS, strand_a_partition, "partitions of the killed member were not taken over"),
    ],
)
def test_each_way_to_fail_is_told(kind: DrillKind, spoil: Callable[[DrillVerdict], None], said: str) -> None:
    verdict = played(kind)
    spoil(verdict)
    assert not verdict.passed
    assert any(said in each for each in verdict.complaints())
    assert said in verdict.summary()
    assert verdict.document()["passed"] is False


@pytest.mark.parametrize("kind", list(DrillKind))
def test_what_was_simulated_is_said_in_words(kind: DrillKind) -> None:
    said = " ".join(played(kind).simulated())
    assert "{" not in said
    assert ("Nothing was simulated" in said) == (kind in (DrillKind.MOVE, DrillKind.MEMBER_LOSS))
    assert "100 small records a second" in said
