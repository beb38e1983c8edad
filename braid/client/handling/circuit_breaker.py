"""The circuit breaker: stops a lane whose records fail through no fault of their own, and tries it with one record.

The dead-letter limit (`dead_letter_limit`) is about records that would become dead letters, and waits until somebody
mends the handler. The circuit breaker is about records that never would, and waits until their dependency is back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from braid.client.consumer_settings import Circuit
from braid.client.delivery.dead_letter_limit import Brakes
from braid.client.delivery.lane_states import Hold, LaneStates
from braid.client.records.handled import Handled
from braid.client.tasks import Run
from braid.kernel.error_texts import text_of
from braid.kernel.limits.rpc import ERROR_TEXT_BYTES_MAX
from braid.kernel.ports import Host

_log = logging.getLogger("braid.consumer")


class Circuits:
    """The circuit breakers of one consumer's lanes."""

    def __init__(
        self,
        host: Host,
        settings: Circuit | None,
        states: LaneStates,
        brakes: Brakes,
        *,
        tell: Callable[[], None],
        beside: Callable[[Run, str], None],
    ) -> None:
        """`tell` is called when the set of open circuits changes; `beside` runs tasks that end with the consumer."""
        self._host = host
        self._settings = settings
        self._states = states
        self._brakes = brakes
        self._tell = tell
        self._beside = beside
        self._lanes: dict[str, LaneCircuit] = {}
        self._open: dict[str, object] = {}  # by lane, the same as long as one stop lasts
        self.probes: dict[str, Probe] = {}  # whoever hands out asks `took`, and tells how it went

    def failed(self, lane: str, error: BaseException, *, retryable: bool) -> None:
        """Counts a handler's error over a record of a lane; opens the circuit when there are too many."""
        if self._settings is None or lane in self._open:
            return
        if lane not in self._lanes:
            self._lanes[lane] = LaneCircuit(self._settings)
        done = self._brakes.lane(lane).done
        if why := self._lanes[lane].failed(self._host.clock.elapsed(), done, retryable=retryable):
            text = text_of(error)[:ERROR_TEXT_BYTES_MAX]
            self._stop(lane, f"{why}, the last by {type(error).__name__}: {text}; one record at a time is tried")

    def took(self, item: Handled) -> None:
        """Makes a lane's next handled item its probe, if `probes` wants one; the lane then stops again."""
        lane = item.work.lease.id.channel.lane
        probe = self.probes.get(lane)
        if probe is not None and probe.item is None:
            probe.item = item
            self._states.admit_none(lane)

    def ended(self, item: Handled, *, well: bool) -> None:
        """Ends a lane's probe; `well` means that the lane may continue."""
        probe = self.probes.get(item.work.lease.id.channel.lane)
        if probe is not None and probe.item is item and not probe.well.done():
            probe.well.set_result(well)

    def close(self, lane: str) -> None:
        """Closes a lane's circuit: the lane continues."""
        if self._open.pop(lane, None) is None:
            return
        probe = self.probes.pop(lane, None)
        if probe is not None and not probe.well.done():
            probe.well.set_result(False)
        self._lanes[lane].reset()
        self._states.release(lane, Hold.CIRCUIT)

    def close_all(self) -> None:
        """Closes all circuits, because no handler is left that could show how a record fares."""
        for lane in list(self._open):
            self.close(lane)
            self._tell()

    def _stop(self, lane: str, reason: str) -> None:
        _log.error("lane %s is stopped: %s", lane, reason)
        self._open[lane] = stop = object()
        self._states.hold(lane, Hold.CIRCUIT, reason)
        self._tell()
        self._beside(partial(self._try, lane, stop), f"circuit-{lane}")

    async def _try(self, lane: str, stop: object) -> None:
        """Tries one record after another until one is done, or somebody resumes the lane."""
        assert self._settings is not None, "a lane is stopped by its rule"
        wait, longest = self._settings.probe_seconds
        while True:
            await self._host.clock.sleep(wait * self._host.randomness.uniform(0.5, 1.0))
            if self._open.get(lane) is not stop:
                return
            probe = self.probes[lane] = Probe()
            self._states.admit_one(lane)
            well = await probe.well
            if self._open.get(lane) is not stop:
                return
            del self.probes[lane]
            if well:
                _log.warning("lane %s goes on", lane)
                self.close(lane)
                self._tell()
                return
            wait = min(wait * 2, longest)


class Probe:
    """The probe of a stopped lane: the next record or batch that is handed out."""

    def __init__(self) -> None:
        """Begins before any handler has the record."""
        self.item: Handled | None = None
        self.well: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class LaneCircuit:
    """Counts what was handled of one lane lately, at one consumer.

    A look begins with a failure. After long enough it opens the circuit, or ends; then the next failure begins another
    look.
    """

    def __init__(self, settings: Circuit) -> None:
        self._settings = settings
        self._since: float | None = None
        self._done = 0  # in all, when the look began
        self._failures = 0  # not the records' fault
        self._others = 0

    def failed(self, now: float, done: int, *, retryable: bool) -> str:
        """Counts a handler's error; returns why the lane must stop, empty while it need not.

        Args:
            now: Seconds, never falling.
            done: How many of the lane's records are done in all.
            retryable: Whether by an error that is not the record's fault.
        """
        if self._since is None:
            if not retryable:
                return ""
            self._since, self._done, self._failures, self._others = now, done, 0, 0
        self._failures += retryable
        self._others += not retryable
        settings, handled = self._settings, self._failures + self._others + done - self._done
        lasted = now - self._since
        if self._failures < settings.failures or lasted < settings.seconds:
            return ""
        if self._failures >= settings.ratio * handled:
            return f"{self._failures} of the last {handled} handled failed in {lasted:.0f} s"
        self._since = None
        return ""

    def reset(self) -> None:
        """Begins a new look."""
        self._since = None
