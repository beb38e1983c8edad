"""Properties try as many examples as the run asks for, also those that say a number themselves."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import USUAL, examples

TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture
def own_profile() -> Iterator[None]:
    """Lets a test load profiles, and loads the one of this run afterwards."""
    before = settings.get_current_profile_name()
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("own_profile")
@pytest.mark.parametrize(("profile", "of_sixty"), [("quick", 20), ("usual", 60), ("extended", 400)])
def test_a_number_scales_with_the_profile(profile: str, of_sixty: int) -> None:
    settings.load_profile(profile)
    assert examples(2 * USUAL) == of_sixty
    assert examples(1) >= 1, "each property tries something"


def test_no_property_has_a_number_that_does_not_scale() -> None:
    written = [each for each in TESTS.rglob("*.py") if each.name != "conftest.py"]
    assert not [each for each in written if re.search(r"max_examples=\d", each.read_text(encoding="utf-8"))]
