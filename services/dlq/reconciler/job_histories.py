"""Copies the sends that job histories record into the index; on every replica, leading or not.

Events arrive as they are appended. A replica reads the histories for events that it missed or had no room for. If
neither store nor archive holds an event any more, its letters have no row and stay listed as replayed.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.client import RESTORE_RETRY_SECONDS
from braid.kernel.limits.dlq import DLQ_EVENTS_READ, DLQ_EVENTS_WAITING_MAX
from braid.kernel.ports import HistoryId
from braid.runtime.histories.kinds import Change, RecordedEvent, Reloaded
from braid.runtime.replica import Replica
from services.dlq.codec.events import REPLAYS
from services.dlq.index.sent_letters import SentLetters
from services.dlq.model.events import ReplayAdvanced
from services.dlq.model.sent_letters import Sending
from services.dlq.peers import ChannelFollower


class JobHistories:
    """Follows the histories of all jobs."""

    def __init__(self, replica: Replica, sent: SentLetters, follower: ChannelFollower) -> None:
        self._replica = replica
        self._sent = sent
        self._follower = follower
        self._read: dict[str, int] = {}  # by job, up to which event the index has it
        self._due: set[str] = set()
        self._waiting: dict[str, list[RecordedEvent]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follows until cancelled."""
        aggregates = self._replica.aggregates
        self._read = dict(await self._replica.host.tasks.run_blocking(self._sent.jobs))
        unsubscribe = aggregates.subscribe(self._on_change)
        self._due |= aggregates.states(REPLAYS).keys()
        try:
            while True:
                self._changed.clear()
                try:
                    for id in sorted(self._due):
                        await self._catch_up(id)
                        self._due.discard(id)
                except Unavailable:  # the store, or the index: its disk is full
                    await self._replica.host.clock.sleep(RESTORE_RETRY_SECONDS)
                    continue
                await self._changed.wait()
        finally:
            unsubscribe()

    def _on_change(self, change: Change | Reloaded) -> None:
        if isinstance(change, Reloaded):
            self._waiting.clear()
            self._due |= self._replica.aggregates.states(REPLAYS).keys()
        elif change.history.kind == REPLAYS.name:
            job = change.history.id
            self._waiting.setdefault(job, []).extend(change.events)
            self._due.add(job)
            if sum(map(len, self._waiting.values())) > DLQ_EVENTS_WAITING_MAX:
                self._waiting.clear()
        self._changed.set()

    async def _catch_up(self, job: str) -> None:
        if self._replica.aggregates.sequence(REPLAYS, job) < self._read.get(job, 0):
            self._read[job] = 0  # the event store was restored: other events have these numbers
        while (read := self._read.get(job, 0)) < (last := self._replica.aggregates.sequence(REPLAYS, job)):
            events = await self._events(job, read + 1)
            until = events[-1].sequence if events else last
            await self._replica.host.tasks.run_blocking(
                partial(self._sent.write, job, until, self._stream(job), self._sendings(job, events))
            )
            self._read[job] = until

    async def _events(self, job: str, first: int) -> Sequence[RecordedEvent]:
        """The next events of a job that are still stored; none if all events so far are gone."""
        waiting = [each for each in self._waiting.pop(job, ()) if each.sequence >= first]
        if waiting and waiting[0].sequence == first:
            return waiting
        history = HistoryId(self._replica.name, REPLAYS.name, job)
        try:
            return (await self._replica.aggregates.listed(history, first, DLQ_EVENTS_READ)).events
        except Unavailable:
            raise
        except BraidError as error:  # it does not decode: whoever decides says so
            self._replica.log.warning("a replay's history cannot be read", replay=job, error=str(error))
            return ()

    def _stream(self, job: str) -> str:
        spec = self._replica.aggregates.state(REPLAYS, job).spec
        return spec.stream if spec is not None else ""

    def _sendings(self, job: str, events: Sequence[RecordedEvent]) -> list[Sending]:
        """The sends that events record, without letters of channels whose topics are deleted."""
        view, stream = self._follower.view, self._stream(job)
        return [
            Sending(letter, each.context.now_ms)
            for each in events
            if isinstance(each.event, ReplayAdvanced)
            for letter in each.event.sent_letters
            if view is None or not view.gone(stream, letter.cursor.generation)
        ]
