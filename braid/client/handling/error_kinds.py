"""Decides what an error that a handler raised means for its record. Pure."""

from enum import Enum, auto

from braid.client.consumer_settings import Retry
from braid.kernel.errors import Reject, Retryable


class ErrorKind(Enum):
    """The meaning of a handler's error for its record."""

    ANOTHER_ATTEMPT = auto()  # as long as it has some left, then it is dead-lettered
    NOT_ITS_FAULT = auto()  # tried again however often
    PERMANENT = auto()  # dead-lettered at once
    REJECTED = auto()  # skipped in place


class ErrorKinds:
    """Finds the kind of an error by its class.

    Of all classes that were named, the one nearest to the error's own counts (its method resolution order). So an
    exception to a rule may be named beside the rule, whichever of the two is which.
    """

    def __init__(self, retry: Retry) -> None:
        """`Retryable` and `Reject` are named already; `retry` may name them anew."""
        self._named: dict[type[BaseException], ErrorKind] = {
            Retryable: ErrorKind.NOT_ITS_FAULT,
            Reject: ErrorKind.REJECTED,
            **dict.fromkeys(retry.permanent, ErrorKind.PERMANENT),
            **dict.fromkeys(retry.retryable, ErrorKind.NOT_ITS_FAULT),
        }

    def of(self, error: BaseException) -> ErrorKind:
        """Returns the kind of an error."""
        named = self._named
        return next((named[each] for each in type(error).__mro__ if each in named), ErrorKind.ANOTHER_ATTEMPT)
