"""Builds etcd's requests and reads its answers. Pure: values in, wire messages out; no I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from braid.stores.etcd.keys import KeyRange
from braid.stores.etcd_wire import etcd_pb2 as wire


def get(key: bytes) -> wire.RangeRequest:
    """Reads one key."""
    return wire.RangeRequest(key=key)


def scan(keys: KeyRange, *, limit: int = 0, revision: int = 0, keys_only: bool = False) -> wire.RangeRequest:
    """Reads a range in the order of its keys, all of it or at most `limit` keys, now or as it was at a revision."""
    return wire.RangeRequest(key=keys.start, range_end=keys.end, limit=limit, revision=revision, keys_only=keys_only)


def last_of(keys: KeyRange) -> wire.RangeRequest:
    """Reads the last key of a range."""
    return wire.RangeRequest(key=keys.start, range_end=keys.end, limit=1, sort_order=wire.RangeRequest.DESCEND)


def reading(request: wire.RangeRequest) -> wire.RequestOp:
    """A read as part of a transaction."""
    return wire.RequestOp(request_range=request)


def put(key: bytes, value: bytes, lease: int = 0) -> wire.RequestOp:
    """Writes a key, bound to a lease unless that is 0."""
    return wire.RequestOp(request_put=wire.PutRequest(key=key, value=value, lease=lease))


def delete(key: bytes) -> wire.RequestOp:
    """Deletes a key."""
    return wire.RequestOp(request_delete_range=wire.DeleteRangeRequest(key=key))


def delete_all(keys: KeyRange) -> wire.RequestOp:
    """Deletes a range."""
    return wire.RequestOp(request_delete_range=wire.DeleteRangeRequest(key=keys.start, range_end=keys.end))


def created_at(key: bytes, revision: int) -> wire.Compare:
    """Compares: the key must be the one created at this revision; revision 0: it must not exist."""
    return wire.Compare(target=wire.Compare.CREATE, key=key, create_revision=revision)


def modified_at(key: bytes, revision: int) -> wire.Compare:
    """Compares: the key must be last written at this revision; revision 0: it must not exist."""
    return wire.Compare(target=wire.Compare.MOD, key=key, mod_revision=revision)


class Answer(NamedTuple):
    """The answer to a transaction: whether its comparisons held, the store's revision, and the result of each read."""

    succeeded: bool
    revision: int
    found: Sequence[Sequence[wire.KeyValue]]

    def one(self, index: int) -> wire.KeyValue | None:
        """Returns the key that the read at `index` asked for, or None if it does not exist."""
        kvs = self.found[index]
        return kvs[0] if kvs else None


def answer(response: wire.TxnResponse) -> Answer:
    """Reads a transaction's answer; operations that were no reads count as having found nothing."""
    found = [tuple(operation.response_range.kvs) for operation in response.responses]
    return Answer(response.succeeded, response.header.revision, found)
