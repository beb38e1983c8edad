"""The contract's bodies can fail: each mutant of the store turns the body that guards against it red."""

from collections.abc import AsyncIterator, Sequence

import pytest

from braid.kernel.errors import BraidError, OutcomeUnknown
from braid.kernel.ports import Appended, Endpoint, EventBatch, Fence, HistoryId, Leader, Snapshot
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from tests.contract.event_store import appending, leading, watching
from tests.contract.event_store.harness import Body, body_name
from tests.contract.event_store.memory_adapter import run_mutant


class FenceOff(MemoryStoreServer):
    """A mutant that appends for every caller, leader or not."""

    def _check_fence(self, fence: Fence) -> None:
        pass


class FenceByServiceAlone(MemoryStoreServer):
    """Takes any fence while somebody leads."""

    def _check_fence(self, fence: Fence) -> None:
        held = self.leader(fence.service)
        super()._check_fence(held.fence if held else fence)


class WatchWithoutResume(MemoryStore):
    """After an interruption goes on from now."""

    async def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        revision = after_revision
        while True:
            if not self._connected:
                await self._linked()
                revision = self.server.batches_after(service, revision)[1]
            batches, revision = self.server.batches_after(service, revision)
            for batch in batches:
                yield batch
            await self.server.changed.wait(0.01)


class WatchThatRepeats(WatchWithoutResume):
    """After an interruption begins again."""

    async def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        revision = after_revision
        while True:
            if not self._connected:
                await self._linked()
                revision = after_revision
            batches, revision = self.server.batches_after(service, revision)
            for batch in batches:
                yield batch
            await self.server.changed.wait(0.01)


class RetryingAppend(MemoryStore):
    """Sends an unanswered append again, where the history ends by then."""

    async def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        try:
            return await super().append(history, events, expected, fence)
        except OutcomeUnknown:
            sequence = (await super().load(history)).sequence
            return await super().append(history, events, sequence, fence)


class SilentCompaction(MemoryStoreServer):
    """Serves watches from forgotten revisions as if nothing were missing."""

    def batches_after(self, service: str, revision: int) -> tuple[Sequence[EventBatch], int]:
        return super().batches_after(service, max(revision, self._state.compacted))


class SnapshotBesideTail(MemoryStoreServer):
    """Forgets one batch too many."""

    def save_snapshot(self, history: HistoryId, snapshot: Snapshot, fence: Fence) -> None:
        super().save_snapshot(history, snapshot, fence)
        del self._state.histories[history].batches[:1]


class LastWriterWins(MemoryStoreServer):
    """Ignores what the writer expected."""

    def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> Appended:
        return super().append(history, events, self.load(history).sequence, fence)


class TwoLeaders(MemoryStoreServer):
    """A mutant in which every candidate wins the election."""

    def try_lead(self, endpoint: Endpoint, session: str) -> Leader | float:
        self._leaders.pop(endpoint.service, None)
        return super().try_lead(endpoint, session)


class HastyExpiry(MemoryStoreServer):
    """Ends sessions before their owners' deadlines."""

    def renew(self, session: str) -> bool:
        known = super().renew(session)
        if known:
            self._sessions[session].expires -= 2.9
        return known


MUTANTS: list[tuple[type[MemoryStoreServer], type[MemoryStore], Body]] = [
    (FenceOff, MemoryStore, appending.a_fence_that_nobody_holds_is_refused),
    (FenceOff, MemoryStore, appending.a_stale_leader_saves_no_snapshot),
    (FenceByServiceAlone, MemoryStore, leading.a_fence_that_is_over_is_refused_for_ever),
    (FenceByServiceAlone, MemoryStore, appending.a_stale_leader_learns_that_it_is_fenced_not_that_it_conflicts),
    (MemoryStoreServer, WatchWithoutResume, watching.an_interrupted_watch_resumes_without_gap_or_repeat),
    (MemoryStoreServer, WatchThatRepeats, watching.an_interrupted_watch_resumes_without_gap_or_repeat),
    (MemoryStoreServer, RetryingAppend, appending.an_unanswered_append_that_happened_is_there_once),
    (SilentCompaction, MemoryStore, watching.a_watch_from_a_forgotten_revision_is_refused),
    (SilentCompaction, MemoryStore, watching.a_restore_raises_the_incarnation_and_ends_watches),
    (SnapshotBesideTail, MemoryStore, appending.snapshot_and_tail_are_of_one_moment),
    (LastWriterWins, MemoryStore, appending.of_appends_at_one_place_exactly_one_wins),
    (LastWriterWins, MemoryStore, appending.a_conflict_writes_nothing),
    (TwoLeaders, MemoryStore, leading.one_leads_at_a_time_and_each_gets_its_turn),
    (HastyExpiry, MemoryStore, leading.a_session_lives_as_long_as_it_is_kept_alive),
]


def _name(part: object) -> str:
    return part.__name__ if isinstance(part, type) else body_name(part) if callable(part) else "mutant"


@pytest.mark.parametrize(("server", "store", "body"), MUTANTS, ids=_name)
def test_a_mutant_turns_its_body_red(server: type[MemoryStoreServer], store: type[MemoryStore], body: Body) -> None:
    with pytest.raises((AssertionError, TimeoutError, BraidError, pytest.fail.Exception)):
        run_mutant(body, server, store)
