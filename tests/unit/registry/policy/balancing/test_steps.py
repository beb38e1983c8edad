"""Decisions about uneven load over time: steps, ramps, sines, spikes, budgets, bad input; nothing oscillates."""

import math
from dataclasses import replace

import numpy as np
import pytest

from braid.kernel.timing.forecasts import Forecast
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.rebalances import BalanceMode, BalanceRules
from services.registry.model.streams import FailoverMode
from services.registry.policy.balancing import loads
from services.registry.policy.balancing.filling import Filling
from services.registry.policy.balancing.placement import Placement, Step, Unit
from services.registry.policy.balancing.steps import ALONE, NO_BUDGET, NOTHING_HELPS, reason_of
from tests.unit.registry.histories import cluster
from tests.unit.registry.policy.balancing.town import GIB, MIB, RULES, Rate, Town, town, undone_within

SKEWED = {f"s{number}": rate for number, rate in enumerate((10, 6, 4, 3, 2, 1))}
ON_EAST = dict.fromkeys(SKEWED, "east")
NAMES = ("east", "north", "west")
SPREAD = {f"s{number}": NAMES[number % 3] for number in range(6)}


def skewed(**more: object) -> Town:
    """Six streams on the first of three clusters."""
    return town(SKEWED, ON_EAST, **more)


def rates(town: Town) -> list[float]:
    """MiB a second of each cluster."""
    return [town.rate(name) / MIB for name in NAMES]


def test_a_step_is_evened_out_in_a_minute_by_two_moves() -> None:
    made = skewed().run(60)
    assert len(made.made) == 2
    assert max(rates(made)) <= 1.2 * sum(SKEWED.values()) / 3
    assert len(made.run(4_200).made) == 2, "a load that stands still moves nothing more"
    assert not made.told


def swinging(period: float, *, noise: float = 0.05) -> Town:
    """Two clusters whose loads swing against each other."""

    def against(sign: int, share: float) -> Rate:
        return lambda now: share * (1 + sign * 0.9 * math.sin(2 * math.pi * now / period))

    made: dict[str, Rate | float] = {f"e{number}": against(1, 2.0 + number) for number in range(3)}
    made |= {f"w{number}": against(-1, 2.0 + number) for number in range(3)}
    return town(made, {name: "east" if name[0] == "e" else "west" for name in made}, noise=noise)


@pytest.mark.parametrize("period", [1_200, 3_600])
def test_a_sine_makes_nothing_that_is_undone_within_an_hour(period: float) -> None:
    made = swinging(period).run(5_400)
    assert not undone_within(made.made, 3_600)


def test_without_the_cool_down_a_sine_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "BALANCE_COOL_DOWN_SECONDS", 0.0)
    monkeypatch.setattr(loads, "BALANCE_MOVES_OF_STREAM", 1_000)
    assert undone_within(swinging(1_200).run(3_600).made, 3_600)


def test_noise_within_the_band_moves_nothing() -> None:
    made = town(dict.fromkeys(SPREAD, 5.0), SPREAD, noise=0.15).run(3_600)
    assert not made.made


def test_without_the_band_noise_moves_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.registry.policy.balancing.placement.BALANCE_BYTES_FLOOR", 0.0)
    monkeypatch.setattr("services.registry.policy.balancing.steps.BALANCE_SLACK", 0.0)
    rules = replace(RULES, band=0.0)
    assert town(dict.fromkeys(SPREAD, 5.0), SPREAD, noise=0.15, rules=rules).run(3_600).made


def test_a_spike_of_two_looks_moves_nothing() -> None:
    spike: Rate = lambda now: 100.0 if 2_000 < now <= 2_020 else 1.0  # noqa: E731
    made = town({**dict.fromkeys(SPREAD, 5.0), "spike": spike}, {**SPREAD, "spike": "east"}).run(2_400)
    assert not made.made


def test_a_ramp_is_followed_by_few_moves() -> None:
    ramp: Rate = lambda now: min(14.0, now / 300)  # noqa: E731
    made = town({**dict.fromkeys(SPREAD, 5.0), "ramp": ramp}, {**SPREAD, "ramp": "east"}, noise=0.03).run(7_200)
    assert 1 <= len(made.made) <= 4
    assert max(rates(made)) <= 1.25 * sum(rates(made)) / 3
    assert not undone_within(made.made, 3_600)


def test_streams_move_a_few_at_a_time() -> None:
    made = town({f"s{n}": 2.0 for n in range(12)}, {f"s{n}": "east" for n in range(12)}).run(120)
    times = [at for at, *_ in made.made]
    assert all(times.count(at) <= RULES.moves_at_once for at in times)
    assert max(rates(made)) <= 1.2 * 8


# --- modes and budgets


def test_off_does_nothing_and_takes_proposals_back() -> None:
    made = skewed(rules=replace(RULES, mode=BalanceMode.PROPOSE)).run(120)
    made.rules = replace(RULES, mode=BalanceMode.OFF)
    made.told.clear()
    made.run(60)
    assert sorted(made.told) == ["s0: RebalanceWithdrawn", "s1: RebalanceWithdrawn"]
    assert not made.made


def test_proposals_are_recorded_once() -> None:
    made = skewed(rules=replace(RULES, mode=BalanceMode.PROPOSE)).run(3_600)
    assert sorted(made.told) == ["s0: RebalanceProposed", "s1: RebalanceProposed"]
    assert not made.made


def test_a_proposal_is_withdrawn_once_the_load_is_even() -> None:
    later: Rate = lambda now: 10.0 if now < 2_000 else 0.1  # noqa: E731
    quiet: dict[str, Rate | float] = {"a": later, "b": 2.0, "c": 2.0, "d": 2.0}
    made = town(
        quiet, {"a": "east", "b": "east", "c": "north", "d": "west"}, rules=replace(RULES, mode=BalanceMode.PROPOSE)
    )
    made.run(900)
    assert any("RebalanceProposed" in each for each in made.told)
    made.run(1_500)
    assert made.told[-1].endswith("RebalanceWithdrawn")


@pytest.mark.parametrize("mode", [FailoverMode.OFF, FailoverMode.PROPOSE])
def test_a_stream_that_does_not_fail_over_is_not_moved(mode: FailoverMode) -> None:
    made = skewed(failover=mode).run(300)
    assert not made.made
    assert made.told == ([f"east: {NOTHING_HELPS}"] if mode is FailoverMode.OFF else made.told)


@pytest.mark.parametrize("rules", [replace(RULES, moves_at_once=0), replace(RULES, bytes_per_day=0)])
def test_a_budget_of_nothing_is_told_once(rules: BalanceRules) -> None:
    made = skewed(rules=rules).run(1_200)
    assert made.told == [f"east: {NO_BUDGET}"]
    assert not made.made


def test_kept_bytes_spend_the_budget_of_a_day() -> None:
    made = skewed(rules=replace(RULES, bytes_per_day=int(1.0 * GIB)))
    made.kept = {history.state.active("live")[0].topic: 0.7 * GIB for history in made.streams.values()}
    made.run(120)
    assert len(made.made) == 1


# --- bad input


def test_a_stream_larger_than_every_cluster_is_told_once() -> None:
    made = town({"a": 100.0, "b": 1.0, "c": 1.0}, {"a": "east", "b": "north", "c": "west"}).run(1_800)
    assert made.told == [f"east: {NOTHING_HELPS}"]
    assert not made.made


def test_closed_clusters_get_nothing() -> None:
    closed = {name: cluster(name, cordoned=name != "east") for name in NAMES}
    made = skewed(clusters=closed).run(600)
    assert not made.made
    assert not made.told, "one cluster alone is even with itself"


def test_a_mesh_without_any_open_cluster_decides_nothing() -> None:
    made = skewed(clusters={name: cluster(name, cordoned=True) for name in NAMES}).run(300)
    assert not made.made
    assert not made.told


def test_a_proposal_whose_target_closed_is_withdrawn() -> None:
    made = skewed(rules=replace(RULES, mode=BalanceMode.PROPOSE)).run(120)
    first = made.streams["s0"].state.rebalance
    assert first is not None
    made.clusters[first.to_cluster] = cluster(first.to_cluster, cordoned=True)
    made.run(120)
    assert made.told.count("s0: RebalanceWithdrawn") == 1
    assert len(made.told) <= 6


def test_clusters_without_room_are_told_once() -> None:
    full = {name: cluster(name) for name in NAMES}
    for name in ("north", "west"):
        full[name] = replace(full[name], spec=replace(full[name].spec, capacity=1))
    made = skewed(clusters=full).run(1_200)
    assert made.told == [f"east: {NOTHING_HELPS}"]


def test_a_cluster_that_is_not_measured_gets_nothing() -> None:
    made = skewed(unmeasured={"north"}).run(120)
    assert {target for *_, target in made.made} == {"west"}


def test_alone_a_filling_cluster_says_so() -> None:
    closed = {name: cluster(name, cordoned=name != "east") for name in NAMES}
    made = town({"a": 10.0}, {"a": "east"}, clusters=closed, disk_bytes=100 * GIB).run(3_600)
    assert made.told == [f"east: {ALONE}"]


@pytest.mark.parametrize("lie", [0, 1 << 60])
def test_one_lying_look_moves_nothing(lie: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = town(dict.fromkeys(SPREAD, 5.0), SPREAD).run(300)
    honest = Town.measure

    def lying(self: Town, name: str) -> MeasuredLoad:
        load = honest(self, name)
        topics = {topic: each._replace(bytes_per_s=float(lie)) for topic, each in load.topics.items()}
        return replace(load, topics=topics) if name == "east" else load

    monkeypatch.setattr(Town, "measure", lying)
    made.run(20)
    monkeypatch.setattr(Town, "measure", honest)
    made.run(600)
    assert not made.made


# --- disks


def test_a_steady_disk_gives_streams_away_before_it_is_full() -> None:
    made = town({"a": 6.0, "b": 4.0, "c": 5.0, "d": 5.0}, {"a": "east", "b": "east", "c": "north", "d": "west"})
    made.rules = replace(RULES, band=10.0)  # only the disk counts
    made.disk_bytes = 2_000 * GIB
    made.filled = {"east": 1_500 * GIB}
    made.run(9 * 3_600)
    assert [(stream, source) for _, stream, source, _ in made.made][:1] == [("a", "east")]
    load = made.world.loads["east"]
    assert 1 - load.free_share < 0.9


@pytest.mark.parametrize(
    ("seconds", "soonest", "text"),
    [
        (600.0, 500.0, "at 90% in 10 min: "),
        (18_000.0, 17_000.0, "at 90% in 5.0 h: "),
        (math.inf, 3_000.0, "at 90% in 50 min at the soonest: "),
    ],
)
def test_the_reason_says_when_the_disk_is_nearly_full(seconds: float, soonest: float, text: str) -> None:
    unit, shape = Unit("a", "east", "east", ("live",), (MIB, 0.0, 1.0)), (2, 3)
    may, brokers = np.ones((1, 2), np.bool_), np.ones(2)
    placement = Placement(("east", "west"), np.zeros(shape), np.ones(shape), 0.2, [unit], may, brokers)
    full = {"east": Filling("east", 0.8, Forecast(seconds, soonest, math.inf, 1.0, seasonal=False, window=600.0))}
    assert text in reason_of(placement, Step(0, 1), full)


def test_no_stream_goes_to_a_disk_that_fills_too() -> None:
    made = town(
        {"a": 6.0, "b": 6.0, "c": 6.0}, {"a": "east", "b": "north", "c": "west"}, rules=replace(RULES, band=10.0)
    )
    made.disk_bytes = 2_000 * GIB
    made.filled = {"east": 1_690 * GIB, "north": 1_690 * GIB}
    made.run(7_200)
    assert {target for *_, target in made.made} == {"west"}


def test_an_even_load_is_no_reason_to_fill_a_disk() -> None:
    closed = {name: cluster(name, cordoned=name == "west") for name in NAMES}
    later: Rate = lambda now: 1.0 if now < 2_000 else 6.0  # noqa: E731
    swollen: dict[str, Rate | float] = {"a": later, "b": later, "c": 2.0}
    made = town(swollen, {"a": "east", "b": "east", "c": "north"}, clusters=closed)
    made.disk_bytes = 2_000 * GIB
    made.filled = {"north": 1_720 * GIB, "east": 1_700 * GIB}
    made.run(3_600)
    assert not made.made
