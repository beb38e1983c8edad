"""Waits of hours or days before a service deletes or expires something: see `led_time`.

Every replica follows the record. The leader counts, stores it, and compares wall clocks. A service with such waits runs
`follow` while it lives and `lead` while it leads.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from braid.kernel.errors import BraidError, NotLeader
from braid.kernel.limits.runtime import CLOCKS_COMPARE_SECONDS, LED_COUNT_SECONDS, LED_LOOK_SECONDS
from braid.kernel.timing.backoff import Backoff
from braid.runtime.clocks.clock_watch import ClockWatch
from braid.runtime.clocks.led_time import HISTORIES, ClockState, Command, CountTime, KeepWaits, LedTime, TellClocks
from braid.runtime.clocks.led_time_codec import CLOCK
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import SideAuthority

if TYPE_CHECKING:
    from braid.runtime.replica import Replica


class Waits:
    """The waits of one service, at one replica."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica
        self._clock = replica.host.clock
        kinds = {CLOCK.name: CLOCK}
        authority = SideAuthority(
            replica.require_leader, lambda why: replica.log.warning("waits are not counted", reason=why)
        )
        self._aggregates = Aggregates(replica.store, kinds, replica.host, HISTORIES, authority, replica.metrics)
        self._watch = ClockWatch(replica)
        self._led: LedTime | None = None
        self._compared = False

    # --- reading

    @property
    def stopped(self) -> str:
        """Why nothing may be deleted or expired now, for people; '' if it may."""
        if self._aggregates.corrupt is not None:
            return f"the length of waits cannot be read: {self._aggregates.corrupt.message}"
        if apart := self._state().apart:
            return f"clocks disagree: {', '.join(_ahead(*each) for each in sorted(apart.items()))}"
        return "" if self._led is None or self._compared else "clocks are not compared yet"

    @property
    def apart(self) -> Mapping[str, int]:
        """How many milliseconds wall clocks are ahead of the others, by instance, where that is too far."""
        return self._state().apart

    @property
    def led_ms(self) -> int:
        """How long the service was led, as far as this replica knows."""
        return self._led_ms(self._state())

    def waited_ms(self, name: str, since_ms: int) -> int:
        """How long something has waited, in time that the service was led; 0 if that is not recorded yet.

        Args:
            since_ms: The time passed to `keep`: it distinguishes this wait from an earlier one of the same name.
        """
        state = self._state()
        return state.waited_ms(name, since_ms, self._led_ms(state))

    def waited(self) -> Mapping[tuple[str, int], int]:
        """Elapsed time of all waits, by name and beginning."""
        state = self._state()
        led_ms = self._led_ms(state)
        return {(name, wait.since_ms): max(0, led_ms - wait.led_ms) for name, wait in state.waits.items()}

    def _state(self) -> ClockState:
        return self._aggregates.state(CLOCK, self._replica.name)

    def _led_ms(self, state: ClockState) -> int:
        return self._led.look(self._clock.elapsed()) if self._led is not None else state.led_ms

    # --- keeping

    async def keep(self, going: Mapping[str, int]) -> None:
        """Records all present waits by name: new ones begin to count, missing ones are over.

        If they cannot be recorded now, the next call records them.
        """
        known = {name: wait.since_ms for name, wait in self._state().waits.items()}
        if self._led is not None and known != going:
            await self._execute(KeepWaits(self._led.look(self._clock.elapsed()), dict(going)), "waits changed")

    async def follow(self) -> None:
        """Follows the record until cancelled, leading or not."""
        await self._aggregates.follow()

    async def lead(self) -> None:
        """Counts led time and compares clocks until cancelled."""
        try:
            await self._take_over()
            counted_at, compared_at = self._clock.elapsed(), float("-inf")
            while True:
                now = self._clock.elapsed()
                led_ms = self._led_ms(self._state())
                if now - compared_at >= CLOCKS_COMPARE_SECONDS:
                    compared_at = now
                    await self._compare()
                if now - counted_at >= LED_COUNT_SECONDS and await self._execute(CountTime(led_ms), "led"):
                    counted_at = now
                await self._clock.sleep(LED_LOOK_SECONDS)
        finally:
            self._led, self._compared = None, False
            await self._watch.close()

    async def _take_over(self) -> None:
        """Continues from the recorded time. Until it was read nothing is counted, and every wait continues."""
        backoff = Backoff(self._replica.host)
        while True:
            try:
                await self._aggregates.catch_up()
            except BraidError as error:
                self._replica.log.warning("waits are not counted yet", error=str(error))
                await backoff.wait()
                continue
            self._led = LedTime(self._state().led_ms, self._clock.elapsed())
            return

    async def _compare(self) -> None:
        before = self._state().apart
        apart = await self._watch.compare(before)
        for name, ahead_ms in apart.items():
            self._replica.metrics.clock_ahead_seconds.labels(name).set(ahead_ms / 1_000)
        for name in before.keys() - apart.keys():
            self._replica.metrics.clock_ahead_seconds.labels(name).set(0)
        if before.keys() != apart.keys():
            text = ", ".join(_ahead(*each) for each in sorted(apart.items())) or "all agree again"
            self._replica.log.warning("clocks", found=text, effect="nothing that waits ends" if apart else "waits end")
            self._compared = await self._execute(TellClocks(apart), text)
        else:
            self._compared = True

    async def _execute(self, command: Command, cause: str) -> bool:
        try:
            await self._aggregates.execute(
                CLOCK, self._replica.name, command, actor=self._replica.instance, cause=cause
            )
        except NotLeader:
            return False
        except BraidError as error:
            self._replica.log.warning("waits are not recorded", error=str(error))
            return False
        return True


def _ahead(instance: str, ahead_ms: int) -> str:
    direction = "ahead of" if ahead_ms > 0 else "behind"
    return f"{instance} is {abs(ahead_ms) / 1_000:.0f} s {direction} most"
