"""Logs are truncated and written again while commits have little room: no claim covers records of later leaders.

What the registry tells of such losses is `test_losing.py`'s business; here every acknowledged record that is left must
reach its group, and every commit be true of the records that it is about.
"""

from dataclasses import replace
from typing import Final

import pytest

from braid.client.commits import encoder, restore
from braid.kernel.ports import Committed
from braid.kernel.progress.fields import EnvelopeFields
from tests.simulation.losing_plans import CUTS, gaps, losing
from tests.simulation.mutants import Mutant
from tests.simulation.plan import FEW_UNITS, Plan
from tests.simulation.run import Result, run

NO_UNITS: Final = 8  # not even the smallest envelope fits
SEEDS: Final = ((8, FEW_UNITS), (9, FEW_UNITS), (3, NO_UNITS))
SPILLS: Final = 2  # a seed in which commits spill
SEEDS_MAX: Final = 24  # about one of five shows it
SETTLE_SECONDS: Final = 30.0  # three times what a sound run takes; a mutant that loses a record waits in vain
_NEWEST: Final = 1 << 20


def plan(seed: int, units: int) -> Plan:
    """Clusters come back without the ends of logs, and are written on at once."""
    return replace(losing(seed, CUTS), metadata_units=units)


def spilled(result: Result) -> bool:
    """Whether commits pointed to records beside them."""
    return any("beside=(b'" in line for line in result.trace)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_believed_of_what_later_leaders_wrote() -> None:
    for each in (*(plan(seed, units) for seed, units in SEEDS), gaps(SPILLS)):
        result = run(each)
        assert result.green, "\n".join([f"seed {each.seed}", *result.trace[-60:], result.message])
        assert any("Destroyed(" in line for line in result.trace)
        assert spilled(result) or each.metadata_units == NO_UNITS


def _believe_all(fields: EnvelopeFields, horizon: int) -> EnvelopeFields:
    """Takes what the record beside a commit claims up to wherever it goes."""
    return fields


def _state_the_newest(self: encoder.EncodedProgress) -> Committed:
    """States a leader epoch that nothing claimed bears, so that no later leader ever shows."""
    return Committed(self.commit.offset, self.commit.metadata, _NEWEST)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mutant",
    [
        Mutant("a record outlives a cut", "I1 zero loss", [(restore, "cut", _believe_all)], shown_by=2),
        Mutant(
            "a commit vouches for later leaders",
            "I3",
            [(encoder.EncodedProgress, "committed", property(_state_the_newest))],
            shown_by=14,
        ),
    ],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    """By a run that is green without it."""
    for seed in dict.fromkeys((mutant.shown_by, *range(SEEDS_MAX))):
        planned = replace(gaps(seed), settle_seconds=SETTLE_SECONDS)
        with mutant.at_work():
            result = run(planned, lines=1)
        if not result.green and result.invariant.startswith(mutant.invariant) and run(planned, lines=1).green:
            print(f"{mutant.name}: seed {seed}: {result.message}")
            return
    pytest.fail(f"no run shows it: {mutant.name}")
