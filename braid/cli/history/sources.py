"""Events and records of calls as one: listed in order of time, and followed together."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.api.mesh.v1.event_pb2 import EventFilter, EventRecord
from braid.cli.core.output import Item
from braid.cli.core.session import Session
from braid.cli.history import feed
from braid.cli.history.calls import Wanted, call_item, follow_calls, is_call, list_calls
from braid.cli.history.feed import Events, Subject, event_item, follow_events

if TYPE_CHECKING:
    from braid.cli.history.verbs import Query

_NOTHING: Final = Events([], [], {})
_ARRIVED_MAX: Final = 1_000  # events that wait to be shown; then those who follow them wait


class Opened(NamedTuple):
    """The requested list as it is now, and the watch that continues it.

    Attributes:
        listed: All of it, in order of time.
        decisions: Of these, what the mesh decided; None where calls alone are wanted.
        calls: Of these, calls; None where they are not wanted.
    """

    session: Session
    wanted: Wanted
    listed: Events
    decisions: Events | None
    calls: Events | None

    async def followed(self) -> AsyncIterator[EventRecord]:
        """Events as they happen. Never ends by itself."""
        follows = []
        if self.decisions is not None:
            follows.append(follow_events(self.session, self.wanted.subject, self.decisions, self.wanted.filter))
        if self.calls is not None:
            follows.append(follow_calls(self.session, self.wanted, self.calls))
        arrived: asyncio.Queue[EventRecord] = asyncio.Queue(_ARRIVED_MAX)
        spawn = self.session.ports.host.tasks.spawn
        tasks = [spawn(_pass_on(each, arrived), "follow events") for each in follows]
        try:
            while True:
                yield await arrived.get()
        finally:
            for task in tasks:
                task.cancel()


async def opened(session: Session, query: "Query", subject: Subject, since_ms: int, until_ms: int) -> Opened:
    """Lists what is asked for: decisions, and calls where they or a caller are asked for. Raises `Unavailable`."""
    filter = EventFilter(actor=query.actor, since_ms=since_ms, rpc=query.rpc, refused=query.refused)
    wanted, latest = Wanted(subject, filter), 0 if query.narrowed else query.most
    decisions = calls = None
    if not query.calls:
        decided_by = EventFilter(actor=query.actor, since_ms=since_ms) if query.narrowed else None
        decisions = await feed.list_events(session, subject, until_ms, latest, decided_by)
    if query.calls or query.actor:
        calls = await list_calls(session, wanted, until_ms, latest)
    both = [*(decisions or _NOTHING).records, *(calls or _NOTHING).records]
    both.sort(key=lambda each: (each.metadata.time_ms, each.history, each.sequence))
    return Opened(session, wanted, Events(both, (decisions or _NOTHING).gaps, {}), decisions, calls)


def event_or_call_item(record: EventRecord) -> Item:
    """The row of either."""
    return call_item(record) if is_call(record) else event_item(record)


async def _pass_on(records: AsyncIterator[EventRecord], arrived: "asyncio.Queue[EventRecord]") -> None:
    async for record in records:
        await arrived.put(record)
