"""The retry budget: how many retries a lane may cost, as a bucket of tokens. Pure.

A finished record earns a share of a token, and a retry costs one (gRPC A6, "Retry throttling"; the share and a floor a
second as in Finagle's `RetryBudget`; "Handling Overload" in Google's SRE book says why). Unlike there, a retry that
succeeds gives its token back: after an outage everything may be tried as fast as it succeeds.
"""

from braid.client.consumer_settings import RetryBudget
from braid.kernel.limits.client import RETRY_BUDGET_SAVED_SECONDS


class LaneBudget:
    """The retry budget of one lane."""

    def __init__(self, settings: RetryBudget, now: float) -> None:
        """Begins with as many tokens as may be saved; `now` in seconds, never falling."""
        self._settings = settings
        self._saved_max = max(1.0, settings.per_second * RETRY_BUDGET_SAVED_SECONDS)
        self._tokens = self._saved_max
        self._done = 0
        self._at = now

    def earn(self, done: int, now: float) -> None:
        """Adds tokens for the lane's finished records, counted from the start, and for the time passed."""
        earned = (done - self._done) * self._settings.share + (now - self._at) * self._settings.per_second
        self._tokens = min(self._saved_max, self._tokens + earned)
        self._done, self._at = done, now

    def spend(self) -> bool:
        """Takes a token for one more retry; returns whether there was one."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Gives back the token of a retry that succeeded or was not made."""
        self._tokens = min(self._saved_max, self._tokens + 1)
