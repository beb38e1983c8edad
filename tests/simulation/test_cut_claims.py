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
from tests.simulation.caught import check_caught
from tests.simulation.losing_plans import CUTS, gaps, losing
from tests.simulation.losing_scripts import cut_with_gaps
from tests.simulation.mutants import Mutant
from tests.simulation.plan import FEW_UNITS, Plan
from tests.simulation.run import Result, run
from tests.simulation.seeds import Enough

NO_UNITS: Final = 8  # not even the smallest envelope fits
SEEDS: Final = ((8, FEW_UNITS), (3, NO_UNITS))
MORE_SEEDS: Final = ((9, FEW_UNITS),)  # in `make test-all`
SPILLS: Final = 2  # a seed in which commits spill
FAULT_SECONDS: Final = 20.0  # in `make test`
_NEWEST: Final = 1 << 20


def plan(seed: int, units: int) -> Plan:
    """Clusters come back without the ends of logs, and are written on at once."""
    return replace(losing(seed, CUTS), metadata_units=units)


def spilled(result: Result) -> bool:
    """Whether commits pointed to records beside them."""
    return any("beside=(b'" in line for line in result.trace)


@pytest.mark.slow
def test_nothing_is_believed_of_what_later_leaders_wrote(enough: Enough) -> None:
    chosen = (*SEEDS, *MORE_SEEDS) if enough.every else SEEDS
    for each in (*(plan(seed, units) for seed, units in chosen), gaps(SPILLS)):
        result = run(each if enough.every else replace(each, fault_seconds=FAULT_SECONDS))
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
@pytest.mark.parametrize(
    "mutant",
    [
        Mutant("a record outlives a cut", "I1 zero loss", [(restore, "cut", _believe_all)], shown_by=7),
        Mutant(
            "a commit vouches for later leaders",
            "I3",
            [(encoder.EncodedProgress, "committed", property(_state_the_newest))],
            shown_by=1,
        ),
    ],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    check_caught(mutant, cut_with_gaps)
