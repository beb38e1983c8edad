"""What the assigner says about a group that letters are replayed to. Values only."""

from typing import NamedTuple


class GroupStanding(NamedTuple):
    """A registered group as it is now.

    Attributes:
        fenced: Whether clusters refuse commits of anybody but its members.
        resets: How many resets of its progress were recorded.
        created_ms: When it was registered; its start position passes records without handling them.
    """

    fenced: bool
    resets: int
    created_ms: int
