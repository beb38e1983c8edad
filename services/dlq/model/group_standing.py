"""The assigner's view of a group that letters are replayed to. Values only."""

from typing import NamedTuple


class GroupStanding(NamedTuple):
    """A registered group, as the assigner knows it now.

    Attributes:
        fenced: Whether clusters refuse commits from anyone but its members.
        resets: Number of recorded resets of its progress.
        created_ms: When it was registered; its start position skips older records without handling them.
    """

    fenced: bool
    resets: int
    created_ms: int
