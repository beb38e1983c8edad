"""The traces that work on channels continues: of what changed a channel last, for a while. A new leader has none."""

from typing import NamedTuple

from braid.kernel.limits.telemetry import CHANNEL_TRACES_MAX, TRACE_CONTINUED_SECONDS
from braid.kernel.ports import Clock
from braid.runtime.histories.kinds import Change
from services.registry.model.channels import ChannelRef
from services.registry.model.stream_events import ChannelRetired, TrafficMoved


class _Traced(NamedTuple):
    """A trace, and when its newest event of the channel was recorded."""

    traceparent: str
    at: float


class ChannelTraces:
    """The newest trace of each channel; of many channels, of those that changed last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._traces: dict[tuple[str, ChannelRef], _Traced] = {}

    def changed(self, change: Change) -> None:
        """Takes the traces of a stream's events."""
        for record in change.events:
            for ref in _refs_of(record.event):
                key = (change.history.id, ref)
                self._traces.pop(key, None)
                if record.context.trace and not isinstance(record.event, ChannelRetired):
                    self._traces[key] = _Traced(record.context.trace, self._clock.elapsed())
        while len(self._traces) > CHANNEL_TRACES_MAX:
            del self._traces[next(iter(self._traces))]

    def of(self, stream: str, ref: ChannelRef) -> str:
        """Returns the `traceparent` that a step of a channel continues; empty if nothing traced happened lately."""
        found = self._traces.get((stream, ref))
        if found is None or self._clock.elapsed() - found.at > TRACE_CONTINUED_SECONDS:
            return ""
        return found.traceparent


def _refs_of(event: object) -> tuple[ChannelRef, ...]:
    if isinstance(event, TrafficMoved):
        return (*(each.ref for each in event.activated), *event.draining)
    ref = getattr(event, "ref", None)
    return (ref,) if isinstance(ref, ChannelRef) else ()
