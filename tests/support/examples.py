"""Scales the examples of a property with the profile of the run: fewer in `make quick`, more in `make test-all`."""

from typing import Final

from hypothesis import settings

USUAL: Final = 30  # of a property that does not say how many itself


def examples(usually: int) -> int:
    """The examples of a property in this run, by what the usual profile tries; read at import, once options are."""
    return max(1, round(usually * settings().max_examples / USUAL))
