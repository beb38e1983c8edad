"""Decides which errors in answer to a hello are final."""

from typing import Final

from braid.kernel.errors import BraidError, Code, GroupOccupied

_FINAL: Final = (Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED)


def is_final(error: BraidError) -> bool:
    """Whether saying hello again cannot help.

    A replica that does not speak our protocol version says what to do. If UNIMPLEMENTED comes without advice, another
    program listens on the port of a replica that is gone.
    """
    if isinstance(error, GroupOccupied):  # said only to whoever would register the group
        return True
    return error.code in _FINAL or (error.code is Code.UNIMPLEMENTED and not is_strange(error))


def is_strange(error: BraidError) -> bool:
    """Whether another program than a replica answered: another address must be found."""
    return error.code is Code.UNIMPLEMENTED and not error.remedy
