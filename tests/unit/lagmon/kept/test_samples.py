"""Columns of samples make the steps that lanes make one by one; a broken column is found."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.lagmon.kept.rows import Step
from services.lagmon.kept.sampling import Sample, Sampler
from services.lagmon.model.lag import LagRow, RowKey, Source
from services.lagmon.policy import Now
from tests.support.examples import examples
from tests.unit.lagmon.kept.kept_steps import Values
from tests.unit.lagmon.kept.plain_sampling import PlainSampler

CLUSTERS = ("east", "west")


def table(dice: Random, ends: dict[RowKey, int], away: set[str]) -> Iterator[LagRow]:
    """Rows of groups that come and go, in lanes over several topics and clusters."""
    for key in ends:
        if {key.group, key.cluster, key.topic} & away:
            continue
        ends[key] = 0 if dice.random() < 0.01 else ends[key] + dice.randrange(50)
        source = dice.choice([Source.ENVELOPE] * 20 + [Source.UNKNOWN, Source.ESTIMATE])
        lag = dice.randrange(9)
        yield LagRow(key, 1, lag, lag * dice.random(), source, False, dice.random() < 0.02, 0,
                     end_offset=ends[key], unattended=dice.random() < 0.05)  # fmt: skip


def play(seed: int) -> list[Step]:
    """Takes the same samples both ways, and compares the steps."""
    dice, sampler, plain, steps = Random(seed), Sampler(), PlainSampler(), list[Step]()
    ends = {
        RowKey(group, stream, "live" if stream else "", cluster, topic, number): 1_000
        for group in ("a", "b", "c")
        for stream, topic in (("logs", "t"), ("logs", "u"), ("orders", "v"), ("", "w"))
        for cluster in CLUSTERS
        for number in range(2)
    }
    away: set[str] = set()
    before, elapsed = None, 50.0
    for _ in range(80):
        elapsed += dice.choice([0.7, 1.0, 1.0, 2.5]) if dice.random() < 0.97 else dice.choice([7.0, 60.0])
        if dice.random() < 0.1:
            away ^= {dice.choice(["a", "b", "c", "east", "west", "u"])}
        now = Now(elapsed, 1_700_000_100_000 + round(elapsed * 1_000))
        rows, catching_up = list(table(dice, ends, away)), ("west",) if dice.random() < 0.05 else ()
        plain.take(now, rows, catching_up)
        sample = before = Sample(now, catching_up, before)
        sample.add(dice.sample(rows, len(rows)))
        step = sampler.observe(sample)
        steps += [step] if step is not None else []
    assert [(step.time_ms, by_series(step)) for step in steps] == plain.steps
    assert [step.keys == tuple(sorted(step.keys)) for step in steps] == [True] * len(steps)
    return steps


def by_series(step: Step) -> dict[object, Values]:
    """The values of each series of a step."""
    return {key: Values(*step.columns[:, at].tolist()) for at, key in enumerate(step.keys)}


@settings(max_examples=examples(20))
@given(st.integers(0, 2**32))
def test_columns_make_the_steps_that_lanes_make_one_by_one(seed: int) -> None:
    play(seed)


def test_series_come_and_go_in_the_middle_of_steps() -> None:
    steps = [step for seed in range(4) for step in play(seed)]
    assert len({len(step.keys) for step in steps}) > 3


@pytest.mark.parametrize(
    ("place", "broken"),
    [
        ("samples._hashes", lambda lags, of_keys: np.zeros(len(lags.pair), np.uint64)),
        ("samples._flags", lambda lags, catching_up: np.ones(len(lags.pair), np.int64)),
        ("samples.channel_columns", lambda rows: ()),
        ("sampling.KEPT_LAG_RATE_MS_MAX", 10_000),
        ("sampling.KEPT_LAG_SAMPLE_MS_MAX", 500),
        ("sampling._moved", lambda column, places: np.resize(column, len(places))),
    ],
)
def test_a_broken_column_is_found(place: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"services.lagmon.kept.{place}", broken)
    with pytest.raises(AssertionError):
        for seed in range(4):
            play(seed)
