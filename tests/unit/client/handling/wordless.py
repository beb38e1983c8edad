"""Errors without a text, and errors that no handler should raise."""

from typing import Final

from braid.client.consumer_settings import Retry

QUICK: Final = Retry(max_attempts=2, backoff_seconds=(0.5, 0.5))


DLQ: Final = "logs/dlq/1"


class Wordless(Exception):
    """An error whose text is not a string."""

    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # what somebody may write


class Raising(Exception):
    """An error whose text raises another error."""

    def __str__(self) -> str:
        raise LookupError("no text")


class Aside(BaseException):
    """An error that is no `Exception`."""
