"""Checks a group's shadow policy at intervals while this replica leads."""

from collections.abc import Callable

from braid.kernel.limits.assigner.placement import SHADOW_LOOK_SECONDS
from braid.kernel.ports import Task
from braid.kernel.timing.slices import in_turns
from braid.runtime.replica import Replica
from braid.runtime.telemetry import AssignerMetrics
from services.assigner.domain.shadow import Trial, look, tried
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group


class ShadowKeeper:
    """Compares one group's shadow policy with its own, and keeps the results. It changes nothing."""

    def __init__(
        self,
        replica: Replica,
        metrics: AssignerMetrics,
        name: str,
        *,
        state: Callable[[], Group],
        loads: Callable[[], Loads],
    ) -> None:
        self.trial: Trial | None = None
        self._replica = replica
        self._metrics = metrics
        self._name = name
        self._state = state
        self._loads = loads
        self._looked_at = -SHADOW_LOOK_SECONDS
        self._task: Task | None = None

    def look(self) -> None:
        """Starts a comparison when one is due and the last has ended."""
        now = self._replica.host.clock.elapsed()
        if self._state().rules.shadow is None:
            self._forget()
        elif self._task is None and now - self._looked_at >= SHADOW_LOOK_SECONDS:
            self._looked_at = now
            self._task = self._replica.host.tasks.spawn(self._compare(), f"shadow of {self._name}")

    @property
    def active(self) -> bool:
        """Whether there is a shadow policy, or a result of one."""
        return self._task is not None or self.trial is not None or self._state().rules.shadow is not None

    def stop(self) -> None:
        """Ends the task that was started here."""
        if self._task is not None:
            self._task.cancel()
        self._forget()

    def _forget(self) -> None:
        if self.trial is not None:
            self.trial = None
            self._metrics.shadow_moves.remove(self._name)
            for side in ("now", "then"):
                self._metrics.shadow_imbalance.remove(self._name, side)

    async def _compare(self) -> None:
        """Compares the policies. A change between slices spoils the result, which is dropped; the next look is near."""
        state = self._state()
        shadow = state.rules.shadow
        try:
            if shadow is None or not state.members:
                return
            work = look(state, self._loads(), shadow.policy, self._replica.host.clock.now_ms())
            last = await in_turns(self._replica.host.clock, work)
            if self._state() is state:
                self.trial = tried(self.trial, shadow, last)
                self._metrics.shadow_moves.labels(self._name).set(last.moves)
                self._metrics.shadow_imbalance.labels(self._name, "now").set(last.now)
                self._metrics.shadow_imbalance.labels(self._name, "then").set(last.then)
        finally:
            self._task = None
