"""Bounds of filters that people type."""

from typing import Final

FILTER_CHARACTERS_MAX: Final = 4_096  # of a filter
FILTER_TERMS_MAX: Final = 256  # comparisons in one filter
FILTER_DEPTH_MAX: Final = 32  # parentheses and `not` within one another
