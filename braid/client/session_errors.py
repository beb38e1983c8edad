"""Which answers to a hello are final."""

from typing import Final

from braid.kernel.errors import BraidError, Code, GroupOccupied

_FINAL: Final = (Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED)


def is_final(error: BraidError) -> bool:
    """Whether saying hello again cannot mend it.

    A replica that does not speak our protocol version says what to do. Who answers UNIMPLEMENTED without advice is no
    replica but a stranger on the port of one that is gone.
    """
    if isinstance(error, GroupOccupied):  # said only to whoever would register the group
        return True
    return error.code in _FINAL or (error.code is Code.UNIMPLEMENTED and not is_strange(error))


def is_strange(error: BraidError) -> bool:
    """Whether something else than a replica answered: another address has to be found."""
    return error.code is Code.UNIMPLEMENTED and not error.remedy
