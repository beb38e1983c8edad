"""How many seeds a test of the simulation plays: few in `make test`, all of them in `make test-all`."""

from dataclasses import dataclass
from typing import Final

import pytest
from _pytest.mark import ParameterSet

USUAL: Final = 2  # seeds that `make test` plays: those of odd and of even numbers differ in many plans


def seeds(count: int) -> list[ParameterSet]:
    """Parameters of a test that plays each seed by itself."""
    return [pytest.param(seed, marks=_marks(seed)) for seed in range(count)]


@dataclass(frozen=True, slots=True)
class Enough:
    """Decides when a test that plays one seed after another may end.

    Attributes:
        every: Never before it has played them all.
    """

    every: bool

    def __call__(self, seed: int, least: int, seen: bool) -> bool:
        """Whether the seeds below this one were enough: at least so many, and all was seen that had to be."""
        return seen and seed >= least and not self.every


def _marks(seed: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if seed < USUAL else [pytest.mark.slow, pytest.mark.extended]
