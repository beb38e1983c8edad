"""Traces of pushed routes: a change's trace goes on over each producer's push until its acknowledgement."""

from collections.abc import Sequence
from typing import NamedTuple

from braid.api.registry.v1.route_pb2 import Route
from braid.runtime.histories.kinds import RecordedEvent
from braid.runtime.traces.pushes import PushSpans
from braid.telemetry.tracing import Attribute
from services.registry.liveness.producer_sessions import ProducerSession
from services.registry.model.stream_events import TrafficMoved
from services.registry.model.streams import Stream


class _Move(NamedTuple):
    """The newest change of a route, and the trace that it belongs to."""

    revision: int
    traceparent: str


class TracedRoutes:
    """The routes of one term on their way to producers, as traces see them."""

    def __init__(self) -> None:
        self._moves: dict[str, _Move] = {}  # by stream: only traced ones
        self._pushes = PushSpans()

    def changed(self, stream: Stream, events: Sequence[RecordedEvent]) -> None:
        """Notes which trace a new route belongs to."""
        for each in events:
            if isinstance(each.event, TrafficMoved):
                self._moves.pop(stream.name, None)
                if each.context.trace:
                    self._moves[stream.name] = _Move(each.event.route_revision, each.context.trace)
        if not stream.exists:
            self._moves.pop(stream.name, None)

    def pushed(self, session: ProducerSession, connection: int, route: Route, before: int) -> str:
        """Begins the span of a push; returns the context to send. `before` is the revision sent before it.

        A producer's first route on a connection (`before` is negative) is what holds, and belongs to no change.
        """
        move = self._moves.get(route.stream)
        traced = move.traceparent if move is not None and move.revision == route.revision and before >= 0 else ""
        attributes: dict[str, Attribute] = {"braid.stream": route.stream, "braid.route.revision": route.revision}
        return self._pushes.begin(_key(session, connection), route.revision, "push route", traced, attributes)

    def acknowledged(self, session: ProducerSession, connection: int, revision: int) -> None:
        """Ends the span of a push that a producer acknowledges."""
        self._pushes.acknowledged(_key(session, connection), revision)

    def gone(self, session: ProducerSession, connection: int) -> None:
        """Ends the span of a push to a connection that ended."""
        self._pushes.gone(_key(session, connection))


def _key(session: ProducerSession, connection: int) -> tuple[str, str, int]:
    return session.stream, session.id, connection
