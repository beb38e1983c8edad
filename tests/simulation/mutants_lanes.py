"""Mutants of what lanes leave each other and of what waits for another attempt, each with a scene that shows it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from braid.client.delivery import cursor, handler_lanes, ready_queue
from braid.client.handling import runner
from braid.client.mesh import MeshOfStreams
from braid.client.records.record import Record
from tests.simulation.mutants import Mutant

FLOOD: Final[dict[str, Any]] = {
    "fault_seconds": 50.0,
    "settle_seconds": 120.0,
    "send_interval_seconds": 0.3,
    "handling_seconds": 0.02,  # one record of live hardly ever finds two before it
    "bulk_seconds": 0.95,  # below what handlers are given
    "bulk_partitions": 6,  # so that no member has lane live for itself
    "concurrency": 4,
    "flood": 10.0,
}
POISON: Final[dict[str, Any]] = {
    "fault_seconds": 30.0,
    "send_interval_seconds": 0.1,
    "handling_seconds": 0.05,
    "backoff_seconds": (1.0, 4.0),
    "poison_percent": 30,
    "concurrency": 4,
    "roomy": True,
}

_begin: Final = cursor.Cursor.__init__


def _one_queue(self: cursor.Cursor, *lease: Any, **how: Any) -> None:
    """A defect: records of all lanes wait in one queue, in the order of arrival."""
    _begin(self, *lease, **how)
    self.queue = "live"


def _all_lent(*given: Any) -> Sequence[handler_lanes.HandlerDuty]:
    """No lane keeps a handler."""
    return [each._replace(helps=True) for each in handler_lanes.roles(*given)]


_RUN: Final = runner.HandlerRunner.run


async def _wait_in_the_slot(self: runner.HandlerRunner[Record]) -> None:
    """A handler's slot waits for the next attempt, and nobody else has it meanwhile."""
    handler: Callable[[Record], Awaitable[object]] = self._handler

    async def patient(record: Record) -> None:
        try:
            await handler(record)
        except Exception as error:
            await asyncio.sleep(self._wait_seconds(record.attempt, error))
            raise

    self._handler = patient
    await _RUN(self)


_consumer: Final = MeshOfStreams.consumer


def _in_order(self: MeshOfStreams, *streams: Any, **settings: Any) -> object:
    """A defect: a record that waits for a retry blocks everything behind it in its partition."""
    return _consumer(self, *streams, **{**settings, "ordering": "partition"})


LANE_MUTANTS: Final = (
    Mutant(
        "lanes without turns",
        "I16 lanes",
        [(cursor.Cursor, "__init__", _one_queue), (handler_lanes, "HANDLERS_PER_LANE_MIN", 1_000)],
        (),
        FLOOD,
    ),
    Mutant("all handlers lent", "I16 lanes", [(ready_queue, "roles", _all_lent)], (), FLOOD),
    Mutant(
        "a retry that keeps its handler", "I16 poison", [(runner.HandlerRunner, "run", _wait_in_the_slot)], (), POISON
    ),
    Mutant("a retry that holds up its partition", "I16 poison", [(MeshOfStreams, "consumer", _in_order)], (), POISON),
)
