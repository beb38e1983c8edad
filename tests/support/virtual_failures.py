"""How a run on virtual time ends early."""

import asyncio


class VirtualDeadlock(RuntimeError):
    """Nothing is ready and no timer is set, so nothing can ever happen again."""


class VirtualFailure(RuntimeError):
    """Something died that nobody awaited; the cause is chained."""


class ProcessKilled(asyncio.CancelledError):
    """A killed process reached for one of its ports."""
