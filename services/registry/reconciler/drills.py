"""Judges drills while leading, and wakes the reconciler when a drill's traffic must leave a cluster."""

from collections.abc import Callable, Mapping

from braid.runtime.replica import Replica
from services.registry.health.rehearsals import Rehearsals
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.liveness.own_lateness import Lateness
from services.registry.model.clusters.thresholds import Thresholds


class DrillJudge:
    """Judges all drills for one term.

    Attributes:
        broken: Why a drill's channel cannot continue, by cluster and topic. Never a channel of another stream.
    """

    def __init__(
        self,
        replica: Replica,
        rehearsals: Rehearsals,
        lateness: Lateness,
        usual: Thresholds,
        interval_seconds: float,
        on_broken: Callable[[], None],
    ) -> None:
        """Starts without reports. `usual` are the default thresholds; `on_broken` is called when `broken` changed."""
        self.broken: Mapping[tuple[str, str], str] = {}
        self._replica = replica
        self._rehearsals = rehearsals
        self._lateness = lateness
        self._usual = usual
        self._interval = interval_seconds
        self._on_broken = on_broken

    async def run(self) -> None:
        """Judges drills until cancelled."""
        clock, states = self._replica.host.clock, self._replica.aggregates.states
        while True:
            now = self._lateness.attentive(clock.elapsed())
            broken = self._rehearsals.look(states(STREAMS), states(CLUSTERS), self._usual, now)
            if broken != self.broken:
                self.broken = broken
                self._on_broken()
            await clock.sleep(self._interval)
