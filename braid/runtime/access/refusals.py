"""Records of refusals: a counter by method and reason, and a line in the log, once a minute for the same thing."""

from typing import Final

from braid.kernel.access.refusals import RefusalReason
from braid.kernel.limits.access.rights import REFUSAL_LOG_SECONDS, REFUSALS_REMEMBERED_MAX
from braid.kernel.ports import Caller, Clock
from braid.runtime.plain_structlog import structlog
from braid.runtime.telemetry import Metrics

UNAUTHENTICATED: Final = RefusalReason.UNAUTHENTICATED.value
DENIED: Final = RefusalReason.DENIED.value
ENDED: Final = RefusalReason.ENDED.value
REVOKED: Final = RefusalReason.REVOKED.value


class Refusals:
    """Counts and logs the refusals of one replica."""

    def __init__(self, clock: Clock, metrics: Metrics, log: structlog.stdlib.BoundLogger) -> None:
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._logged_at: dict[tuple[str, str, str], float] = {}

    def record(self, method: str, reason: str, caller: Caller, why: str) -> None:
        """Counts a refusal, and logs it unless its like was logged within the last minute."""
        self._metrics.access_refusals.labels(method, reason).inc()
        key, now = (method, reason, caller.principal), self._clock.elapsed()
        if now - self._logged_at.get(key, float("-inf")) < REFUSAL_LOG_SECONDS:
            return
        self._logged_at.pop(key, None)
        if len(self._logged_at) >= REFUSALS_REMEMBERED_MAX:
            del self._logged_at[next(iter(self._logged_at))]  # the one logged longest ago
        self._logged_at[key] = now
        self._log.warning(
            "refused", method=method, reason=reason, principal=caller.principal, peer=caller.peer, why=why
        )
