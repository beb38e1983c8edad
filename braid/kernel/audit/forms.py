"""Which calls are recorded, and how: changes one by one, what may repeat without bound as counts. Pure."""

from enum import Enum

from braid.kernel.access.roles import Action
from braid.kernel.access.table import Row
from braid.kernel.audit.calls import Outcome


class Reads(Enum):
    """Which reads are recorded beside every change and every refusal."""

    NONE = "none"
    CONTENT = "content"  # what applications wrote: dead letters
    ALL = "all"


class Form(Enum):
    """How a call is recorded."""

    NOTHING = "nothing"
    COUNTED = "counted"
    SINGLE = "single"


def form_of(row: Row | None, outcome: Outcome, reads: Reads, *, stream: bool) -> Form:
    """How a call of a method is recorded.

    Args:
        row: Of the table of access; None for a method that has none.
        outcome: How the call ended.
        reads: Which reads are recorded.
        stream: Whether the method is a stream: one that may be opened again and again.
    """
    if outcome is Outcome.REFUSED or row is None:
        return Form.COUNTED
    if row.mutates or (row.action is Action.INSPECT and reads is not Reads.NONE):
        return Form.SINGLE if outcome is Outcome.OK and not stream else Form.COUNTED
    return Form.COUNTED if reads is Reads.ALL else Form.NOTHING
