"""Replacements for mutants: a store, a cluster and a leader that let a stale writer through, or forget an epoch."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from braid.client.commits import committer
from braid.kafka.memory.clients import MemoryOffsets
from braid.kafka.memory.groups import Groups
from braid.kernel.errors import OutcomeUnknown
from braid.kernel.ports import Appended, Committed, EventBatch, Fence, Generation, HistoryId, TopicPartition
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner.codec import events
from services.assigner.model.group import Group


def any_fence(self: MemoryStoreServer, fence: Fence) -> None:
    """Lets everybody write."""


_append: Final = MemoryStore.append


async def append_again(
    self: MemoryStore, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence
) -> Appended:
    try:
        return await _append(self, history, events, expected, fence)
    except OutcomeUnknown:
        return await _append(self, history, events, expected, fence)


async def watch_from_now(self: MemoryStore, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
    revision, connected = after_revision, True
    while True:
        if not self._connected:
            connected = False
            await self._linked()
        batches, until = self.server.batches_after(service, revision)
        for batch in batches if connected else ():
            yield batch
        revision, connected = until, True
        if not batches:
            await self.server.changed.wait()


_send: Final = committer.Committer._send


async def adopt_generation(self: committer.Committer, commits: dict[TopicPartition, Committed]) -> None:
    assert isinstance(self._offsets, MemoryOffsets)
    known = self._offsets._cluster.groups._groups.get(self._group)
    if known is not None and known.member_id is not None:
        self.generation = Generation(known.generation, known.member_id)
    await _send(self, commits)


_store: Final = Groups.commit


def any_generation(
    self: Groups, name: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
) -> None:
    known = self._groups.get(name)
    held = None if known is None or known.member_id is None else Generation(known.generation, known.member_id)
    _store(self, name, offsets, held)


def same_epoch(incarnation: int, counter: int) -> int:
    return incarnation << 40 | counter // 2


_decode_state: Final = events.GroupCodec.decode_state


def forget_epoch(self: events.GroupCodec, data: bytes) -> Group:
    return replace(_decode_state(self, data), last_epoch=0)
