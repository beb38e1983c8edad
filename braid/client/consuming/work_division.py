"""Divides a consumer's handlers, memory and turns between lanes as the assigner says, while it answers lag.

What the assigner says replaces shares of lanes and the number of handlers, within the bound that the application set.
An empty word goes back to the consumer's own settings. A word that makes no sense changes nothing.
"""

import logging
import math
from collections.abc import Mapping

from braid.api.assigner.v1 import join_pb2
from braid.client.consumer_settings import ConsumerSettings
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.handling.consumer_runners import Runners
from braid.kernel.limits.client import LANE_SHARE_MAX
from braid.kernel.limits.names import LANES_MAX

_log = logging.getLogger("braid.consumer")


class WorkDivision:
    """How one consumer divides its work now."""

    def __init__(self, settings: ConsumerSettings, ready: ReadyQueue, memory: MemoryBound, runners: Runners) -> None:
        self._settings = settings
        self._ready = ready
        self._memory = memory
        self._runners = runners
        self._shares: Mapping[str, int] = settings.lanes
        self._handlers = settings.handlers

    @property
    def possible(self) -> bool:
        """Whether handlers can be divided anew: where each lane has its own, they cannot."""
        return not self._settings.handlers_by_lane

    def apply(self, told: join_pb2.WorkDivision) -> None:
        """Divides the work as told from now on. Handlers that are too many end with the records that they have."""
        if not self.possible or not _makes_sense(told):
            _log.warning("group %s: no division of work is applied: %s", self._settings.group, told)
            return
        shares = dict(told.shares) or self._settings.lanes
        handlers = handlers_of(self._settings, told.concurrency)
        if (shares, handlers) == (self._shares, self._handlers):
            return
        self._shares, self._handlers = shares, handlers
        self._memory.share_out(shares)
        self._ready.share_out(shares, handlers)
        self._runners.resize(handlers)
        _log.info(
            "group %s runs %d handlers, lanes share them as %s", self._settings.group, handlers, shares or "equals"
        )


def handlers_of(settings: ConsumerSettings, factor: float) -> int:
    """Returns how many handlers a consumer runs that is asked for so many times its own; 0 for its own."""
    if factor <= 1:
        return settings.handlers
    return max(settings.handlers, min(math.ceil(settings.handlers * factor), settings.handlers_max))


def _makes_sense(told: join_pb2.WorkDivision) -> bool:
    fair = all(1 <= share <= LANE_SHARE_MAX for share in told.shares.values())
    return fair and len(told.shares) <= LANES_MAX and math.isfinite(told.concurrency)
