"""Pauses lanes for an application, stops lanes by themselves, and resumes both.

The dead-letter limit stops a lane when so many of its records would be dead-lettered that no record can be to blame.
The circuit breaker stops it when nearly all records fail through no fault of their own.
"""

import logging
from collections.abc import Callable

from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.background import Background
from braid.client.delivery.dead_letter_limit import Brakes
from braid.client.delivery.lane_states import Hold, LaneStates
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.handling.circuit_breaker import Circuits
from braid.client.telemetry.metrics import Level
from braid.kernel.ports import Host

_log = logging.getLogger("braid.consumer")


class LaneControl:
    """Which lanes of one consumer are handed out.

    Attributes:
        states: Why lanes do not go on.
        brakes: Say whether more records of a lane may be dead-lettered.
        circuits: Hear of errors that are not the records' fault.
    """

    def __init__(
        self,
        host: Host,
        settings: ConsumerSettings,
        ready: ReadyQueue,
        background: Background,
        level: Level,
        told: Callable[[dict[str, str]], None],
    ) -> None:
        """`level` counts the stopped lanes; `told` is called with them and their reasons whenever that changes."""
        self._group = settings.group
        self._level = level
        self._told = told
        self.states = LaneStates(ready)
        self.brakes = Brakes(settings.retry.dead_letters, self._stop)
        self.circuits = Circuits(
            host, settings.retry.circuit, self.states, self.brakes, tell=self._tell, beside=background.beside
        )

    def pause(self, lane: str) -> None:
        """Pauses a lane, as the application asks."""
        self.states.hold(lane, Hold.APPLICATION)

    def resume(self, lane: str) -> None:
        """Resumes a lane, whether it was paused or stopped, as the application asks."""
        self.states.release(lane, Hold.APPLICATION)
        self._go_on(lane)

    def resume_stopped(self, lane: str) -> None:
        """Resumes a stopped lane, as an operator asks; a pause stays."""
        if lane in self.states.stopped():
            self._go_on(lane)

    def _stop(self, lane: str, reason: str) -> None:
        """Stops a lane of which too many records would be dead-lettered."""
        _log.error("lane %s of group %s is stopped: %s. Fix the handler, then resume", lane, self._group, reason)
        self.states.hold(lane, Hold.DEAD_LETTERS, reason)
        self._tell()

    def _go_on(self, lane: str) -> None:
        """Ends the stop of a lane; a pause belongs to the application and stays."""
        was_stopped = lane in self.states.stopped()
        self.brakes.release(lane)
        self.circuits.close(lane)
        self.states.release(lane, Hold.DEAD_LETTERS)
        if was_stopped:
            self._tell()

    def _tell(self) -> None:
        lanes = self.states.stopped()
        self._level.set(len(lanes))
        self._told(lanes)
