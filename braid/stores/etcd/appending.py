"""Appends to etcd: the transaction, and what its outcome proves.

Pure: the store sends the requests built here, and asks this module what the answers mean.

A transaction is sent once. When no answer comes it is read back, and `judge` says what the reading proves:

    batch is there, with our append id ───────────────► Appended
    absent, leadership over ──────────────────────────► Fenced      (final: the sent one can no longer succeed)
    absent, head moved past, nothing of it folded ────► Conflict    (final, likewise)
    absent, head unmoved, or a snapshot folded it ────► OutcomeUnknown
"""

from collections.abc import Sequence
from typing import NamedTuple

from braid.kernel.errors import Conflict, Fenced, OutcomeUnknown
from braid.kernel.ports import Appended, Fence, HistoryId
from braid.stores.etcd import keys, requests
from braid.stores.etcd.reading import decode
from braid.stores.etcd.requests import Answer
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored


class Head(NamedTuple):
    """A history's head key: its last sequence (0 when nothing was appended) and the revision that wrote it."""

    sequence: int
    mod_revision: int


class Attempt(NamedTuple):
    """One append, as sent: what is needed to send it and to recognise it afterwards."""

    history: HistoryId
    events: Sequence[bytes]
    head: Head
    fence: Fence
    append_id: str

    @property
    def first(self) -> int:
        """Sequence of the first event."""
        return self.head.sequence + 1

    @property
    def last(self) -> int:
        """Sequence of the last event."""
        return self.head.sequence + len(self.events)


def read_head(kv: wire.KeyValue | None) -> Head:
    """The head as its key says. Raises `CorruptHistory`."""
    if kv is None:
        return Head(0, 0)
    return Head(decode(stored.StoredHead, kv.value).sequence, kv.mod_revision)


def check_expected(history: HistoryId, expected: int, head: Head) -> None:
    """Raises `Conflict` unless the head's sequence is the expected one."""
    if head.sequence != expected:
        raise Conflict(f"{history} is at {head.sequence}, not at {expected}", remedy="load it again and decide anew")


def transaction(attempt: Attempt) -> wire.TxnRequest:
    """Writes head and batch if the head is as read and the leader key still the one that was won; else reads both."""
    head_key, leader_key = keys.head(attempt.history), keys.leader(attempt.fence.service)
    batch = stored.StoredBatch(append_id=attempt.append_id, first=attempt.first, events=attempt.events)
    return wire.TxnRequest(
        compare=[
            requests.modified_at(head_key, attempt.head.mod_revision),
            requests.created_at(leader_key, attempt.fence.revision),
        ],
        success=[
            requests.put(head_key, stored.StoredHead(sequence=attempt.last).SerializeToString()),
            requests.put(keys.batch(attempt.history, attempt.first), batch.SerializeToString()),
        ],
        failure=[requests.reading(requests.get(head_key)), requests.reading(requests.get(leader_key))],
    )


def conclude(attempt: Attempt, answer: Answer) -> Appended:
    """Returns the place of an append whose transaction was answered.

    Raises:
        Fenced: another leadership holds the key, or none.
        Conflict: another append came first.
    """
    if answer.succeeded:
        return Appended(attempt.last, answer.revision)
    check_fence(attempt.fence, answer.one(1))
    raise _conflict(attempt, read_head(answer.one(0)))


def check_taken(fence: Fence) -> None:
    """Raises `Fenced` for a fence no election gave: revision 0 would mean "while nobody leads" to etcd."""
    if fence.revision <= 0:
        raise Fenced(f"{fence.revision} is no leadership of {fence.service}")


def check_fence(fence: Fence, leader: wire.KeyValue | None) -> None:
    """Raises `Fenced` unless the leader key is the one the fence was taken from."""
    if leader is None or leader.create_revision != fence.revision:
        now = "nobody" if leader is None else f"the leader since revision {leader.create_revision}"
        raise Fenced(f"leadership of {fence.service} since revision {fence.revision} is over: {now} leads")


def read_back(attempt: Attempt) -> Sequence[wire.RangeRequest]:
    """Builds the read, at one revision, that shows what became of an append without an answer."""
    return [
        requests.get(keys.batch(attempt.history, attempt.first)),
        requests.get(keys.head(attempt.history)),
        requests.get(keys.leader(attempt.fence.service)),
        requests.get(keys.manifest(attempt.history)),
    ]


def judge(attempt: Attempt, answer: Answer) -> Appended:
    """Decides what the answer to `read_back` proves; the module's docstring has the table.

    Raises:
        Fenced, Conflict: it did not happen and never will.
        OutcomeUnknown: it may have happened, or may still.
    """
    batch = answer.one(0)
    if batch and decode(stored.StoredBatch, batch.value).append_id == attempt.append_id:
        return Appended(attempt.last, batch.mod_revision)
    manifest = answer.one(3)
    if manifest and decode(stored.StoredManifest, manifest.value).sequence >= attempt.first:
        raise unknown(attempt)
    check_fence(attempt.fence, answer.one(2))
    head = read_head(answer.one(1))
    if head.mod_revision != attempt.head.mod_revision:
        raise _conflict(attempt, head)
    raise unknown(attempt)


def unknown(attempt: Attempt) -> OutcomeUnknown:
    """Returns the error for an append whose outcome could not be learned."""
    return OutcomeUnknown(
        f"the append to {attempt.history} after {attempt.head.sequence} was not answered",
        remedy="load the history again before deciding anything",
    )


def _conflict(attempt: Attempt, head: Head) -> Conflict:
    return Conflict(
        f"{attempt.history} is at {head.sequence}, another append came before {attempt.first}",
        remedy="load it again and decide anew",
    )
