"""The answers of a rule about many subjects at once: a small number for each. Pure."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.int8]
"""The answer of a rule about each subject."""

ABSENT: Final = -2  # the rule says nothing of the subject
UNKNOWN: Final = -1  # it cannot be told
NO: Final = 0
YES: Final = 1
HOLDS: Final[Mapping[int, bool | None]] = {UNKNOWN: None, NO: False, YES: True}


def states(yes: NDArray[np.bool_], no: NDArray[np.bool_]) -> States:
    """Returns what is known to hold, what is known not to hold, and for all others that it cannot be told."""
    return np.where(yes, YES, np.where(no, NO, UNKNOWN)).astype(np.int8)


def either(one: States, other: States) -> States:
    """Returns whether one of two conditions holds."""
    return states((one == YES) | (other == YES), (one == NO) & (other == NO))


def both(one: States, other: States) -> States:
    """Returns whether both of two conditions hold."""
    return states((one == YES) & (other == YES), (one == NO) | (other == NO))


def where(chosen: NDArray[np.bool_], one: States, other: int) -> States:
    """Returns what is said where it is chosen, and one number elsewhere."""
    return np.where(chosen, one, other).astype(np.int8)
