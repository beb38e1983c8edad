"""How many offsets a commit's 4,096 units hold, and how many times as many as Parallel Consumer's format."""

from typing import Final

import pytest

from bench import envelope
from bench.envelope import AIM, PATTERNS, Pattern, by_braid, fitting

LONGEST: Final = (100_000, 200_000, 1_200_000, 8_000_000, 12_000_000)  # that is tried, of each pattern
NAMES: Final = tuple(each.name for each in PATTERNS)


def holds(pattern: Pattern, most: int) -> bool:
    """Whether the figures of a pattern are reached."""
    own, peer = fitting(pattern, most)
    return own >= pattern.aim and own >= AIM * peer


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("pattern", "most"), tuple(zip(PATTERNS, LONGEST, strict=True)), ids=NAMES)
def test_a_window_of_each_pattern_fits(pattern: Pattern, most: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "SEED", seed)
    assert holds(pattern, most)


def test_fifteen_bits_a_unit_would_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before: a commit holds 15½."""
    monkeypatch.setattr(envelope, "by_braid", lambda done, units: by_braid(done, units * 30 // 31))
    assert not holds(PATTERNS[0], LONGEST[0])
