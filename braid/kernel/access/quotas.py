"""Quotas of tenants: what a tenant may create, and how many calls it may begin. Pure; time is passed in."""

from typing import Final

from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import BraidError, QuotaExceeded
from braid.kernel.limits.access.rights import DOOR_BURST_SECONDS, DOOR_RETRY_SECONDS, DOOR_RETRY_SECONDS_MAX

_RETRY_MS: Final = "retry_ms"  # in an error's metadata
_RETRY_DIGITS_MAX: Final = 9  # eleven days; more is no hint
_ROUNDING_SECONDS: Final = 1e-6
_MORE: Final = "ask an admin for more (braid get tenants)"


def check_quota(tenant: str, quota: str, used: int, more: int, limit: int, *, free: str = "") -> None:
    """Checks that a tenant may have some more of a thing.

    Args:
        tenant: Its name.
        quota: The quota's name, as in `Quotas`.
        used: How many it has.
        more: How many it asks for.
        limit: How many it may have; 0 for no limit.
        free: What gives some back, for people.

    Raises:
        QuotaExceeded: it would have too many; a request for nothing more is never refused.
    """
    if not limit or more <= 0 or used + more <= limit:
        return
    message = f"tenant {tenant} has {used} of its {limit} {quota}: {more} more are too many"
    remedy = f"{free}, or {_MORE}" if free else _MORE
    raise QuotaExceeded(message, remedy=remedy, metadata=_facts(tenant, quota, used, limit))


class TenantDoor:
    """The door of one replica for one tenant's calls: how many are open, and how many begin in a second.

    The rate is policed by the generic cell rate algorithm (ITU-T I.371), a token bucket that keeps one time. A refused
    call takes nothing. It is told a time of its own to come again, so that refused callers do not come back together.
    """

    def __init__(self, tenant: str, quotas: Quotas) -> None:
        """A door that nobody has passed yet."""
        self._tenant = tenant
        self.quotas = quotas
        self.open_calls = 0
        self.held = 0  # refused calls that wait for their answer
        self._due = float("-inf")  # when the rate alone would let the next call begin
        self._told = float("-inf")  # the latest time that a refused call was told

    def change(self, quotas: Quotas) -> None:
        """Sets other quotas; open calls stay counted, and the bucket is full."""
        self.quotas = quotas
        self._due = self._told = float("-inf")

    def enter(self, now: float) -> None:
        """Counts a call that begins at `now`, in seconds on `Clock.elapsed`; `leave` is called when it ends.

        Raises:
            QuotaExceeded: it is one too many; says when to come again.
        """
        limit = self.quotas.open_calls
        if limit and self.open_calls >= limit:
            raise self._refusal("open_calls", self.open_calls, limit, DOOR_RETRY_SECONDS)
        rate = self.quotas.requests_per_second
        if rate:
            due = max(self._due, now)
            if due - now > self._ahead() + _ROUNDING_SECONDS:
                raise self._refusal("requests_per_second", rate, rate, self._later(due, now))
            self._due = due + 1 / rate
        self.open_calls += 1

    def leave(self) -> None:
        """Counts a call that has ended."""
        self.open_calls -= 1

    def _later(self, due: float, now: float) -> float:
        """Seconds until a refused call may come again: after all who were told so before it."""
        free = due - self._ahead()
        self._told = min(max(self._told, free) + 1 / self.quotas.requests_per_second, now + DOOR_RETRY_SECONDS_MAX)
        return self._told - now

    def _ahead(self) -> float:
        """How far calls may run ahead of the rate, in seconds: a burst but for the one that begins."""
        return max(0.0, DOOR_BURST_SECONDS - 1 / self.quotas.requests_per_second)

    def _refusal(self, quota: str, used: int, limit: int, seconds: float) -> QuotaExceeded:
        message = f"tenant {self._tenant} is at its limit of {limit} {quota} at this replica"
        facts = _facts(self._tenant, quota, used, limit) | {_RETRY_MS: str(max(1, int(seconds * 1_000)))}
        return QuotaExceeded(message, remedy=f"call less often, or {_MORE}", metadata=facts)


def retry_seconds(error: BraidError) -> float:
    """When the same request may succeed, as its error says; 0 where waiting does not help.

    It is at most what a door tells: whoever says more, by mistake or on purpose, silences no stream for days.
    """
    text = error.metadata.get(_RETRY_MS, "") if isinstance(error, QuotaExceeded) else ""
    told_seconds = int(text) / 1_000 if text.isdecimal() and len(text) <= _RETRY_DIGITS_MAX else 0.0
    return min(told_seconds, DOOR_RETRY_SECONDS_MAX)


def _facts(tenant: str, quota: str, used: int, limit: int) -> dict[str, str]:
    return {"tenant": tenant, "quota": quota, "used": str(used), "limit": str(limit)}
