"""Lanes in a flood and beside poison: who waits for a handler, and for how long (I16)."""

from collections.abc import Sequence
from typing import Any

import pytest

from testbed.checkers import Checker, check, facts
from testbed.checkers.facts import Fact, Flooded, LogId, Place, Troubled
from testbed.checkers.lanes import SAMPLES_MIN, SETTLED_SECONDS, FairLanes, PoisonStandsAside, percentile99
from tests.simulation.mutants_lanes import FLOOD, POISON
from tests.simulation.plan import Plan
from tests.simulation.run import Result, run

SEEDS_MAX = 8
KILLS: dict[str, Any] = {"faults": ("kill-member",), "fault_interval_seconds": 8.0}


def played(plan: Plan) -> Result:
    result = run(plan)
    assert result.green, "\n".join([f"seed {plan.seed}", *result.trace[-40:], result.message])
    return result


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.extended)])
def test_a_flood_of_one_lane_leaves_the_other_in_time(seed: int) -> None:
    result = played(Plan(seed, faults=(), **FLOOD))
    assert all(each.judges for each in result.checkers if isinstance(each, FairLanes))


@pytest.mark.slow
def test_a_flood_leaves_other_lanes_in_time_though_members_die() -> None:
    scene = {**FLOOD, **KILLS, "fault_seconds": 75.0, "fault_interval_seconds": 20.0}
    for seed in range(2, SEEDS_MAX):
        result = played(Plan(seed, **scene))
        if all(each.judges for each in result.checkers if isinstance(each, FairLanes)):
            assert any("KILL member" in line for line in result.trace)
            return
    pytest.fail("no run had enough calm on both sides")


@pytest.mark.slow
@pytest.mark.parametrize("faults", [{"faults": ()}, KILLS], ids=["calm", "kills"])
def test_poison_never_stalls_its_neighbours(faults: dict[str, Any]) -> None:
    result = played(Plan(3, **{**POISON, **faults}))
    assert result.counts["Failed"] > 100
    assert all(each.judged > SAMPLES_MIN for each in result.checkers if isinstance(each, PoisonStandsAside))


# --- what the checkers see

LIVE = LogId("east", "braid.logs.live.1", 0)
BULK = LogId("east", "braid.logs.bulk.1", 0)


class Scene:
    """Facts, and the times at which they happened."""

    def __init__(self) -> None:
        self.at: list[tuple[float, Fact]] = []
        self.now = SETTLED_SECONDS
        self._offset = 0

    def note(self, *more: Fact) -> None:
        self.at += [(self.now, each) for each in more]

    def waits(self, seconds: float, log: LogId = LIVE, count: int = 1) -> None:
        """Records that wait for so long, one after another."""
        for _ in range(count):
            self._offset += 1
            self.note(facts.Acknowledged(b"", Place(*log, self._offset)))
            self.now += seconds
            self.note(facts.HandlerStarted("g", "a", log, self._offset, self._offset))

    def told_by(self, make: type[FairLanes] | type[PoisonStandsAside], *settings: Any) -> Sequence[str]:
        clock = [0.0]
        checker: Checker = make(lambda: clock[0], *settings)

        def facts_in_time() -> Any:
            for clock[0], fact in self.at:
                yield fact

        return [each.message for each in check([checker], facts_in_time())]


def flood(before: float, during: float, log: LogId = LIVE, count: int = SAMPLES_MIN) -> Scene:
    scene = Scene()
    scene.waits(before, log, count)
    scene.note(Flooded("bulk", begins=True))
    scene.waits(during, log, count)
    scene.note(Flooded("bulk", begins=False))
    scene.waits(9.0, log, count)
    return scene


def test_a_floods_cost_beyond_its_bound_to_another_lane_is_seen() -> None:
    def red(scene: Scene) -> bool:
        return bool(scene.told_by(FairLanes, "live", 0.1))

    assert not red(flood(0.1, 0.249))
    assert red(flood(0.1, 0.251))
    assert not red(flood(0.1, 9.0, BULK)), "its own flood is the flooded lane's business"
    assert not red(flood(0.1, 9.0, count=SAMPLES_MIN - 1))


def test_waits_during_a_fault_are_not_judged() -> None:
    scene = Scene()
    scene.waits(0.1, LIVE, SAMPLES_MIN)
    scene.note(Flooded("bulk", begins=True))
    scene.waits(0.1, LIVE, SAMPLES_MIN)
    scene.note(facts.Acknowledged(b"", Place(*LIVE, 9_999)), Troubled(begins=True))
    scene.waits(3.0)
    scene.note(Troubled(begins=False))
    scene.waits(SETTLED_SECONDS - 0.5)
    scene.note(facts.HandlerStarted("g", "a", LIVE, 0, 9_999))
    assert not scene.told_by(PoisonStandsAside)
    assert not scene.told_by(FairLanes, "live", 0.1)


def test_a_record_that_waits_for_more_than_a_second_is_seen_once() -> None:
    scene = Scene()
    scene.waits(0.9)
    assert not scene.told_by(PoisonStandsAside)
    scene.note(facts.Acknowledged(b"", Place(*BULK, 9_999)))
    scene.waits(0.6, LIVE, 3)
    assert len(scene.told_by(PoisonStandsAside)) == 1, "before its handler begins"
    scene.note(facts.HandlerStarted("g", "a", BULK, 0, 9_999))
    assert len(scene.told_by(PoisonStandsAside)) == 1


def test_the_99th_percentile_is_by_the_nearest_rank() -> None:
    assert percentile99([1.0]) == 1.0
    assert percentile99([float(each) for each in range(1, 101)]) == 99.0
    assert percentile99([float(each) for each in range(1, 201)]) == 198.0
