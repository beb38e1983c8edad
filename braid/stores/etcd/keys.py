"""The table of etcd keys, and nothing else: every key Braid keeps in etcd is built and read here.

    /braid/v1/incarnation                                          decimal; raised by each restore from a backup
    /braid/v1/mesh                                                 the mesh's id; written once
    /braid/v1/directory/<service>/<instance>                       StoredEndpoint, bound to the replica's session
    /braid/v1/<service>/leader                                     StoredEndpoint, bound to the leader's session
    /braid/v1/<service>/history/<kind>/<id>/head                   StoredHead
    /braid/v1/<service>/history/<kind>/<id>/<sequence>             StoredBatch, by the sequence of its first event
    /braid/v1/<service>/snapshot/<kind>/<id>/manifest              StoredManifest
    /braid/v1/<service>/snapshot/<kind>/<id>/<upload>/<chunk>      a piece of one; an upload begins with its sequence

Sequences are padded to 20 digits and chunks to 6, so that keys sort as numbers do. Names are percent-encoded.
"""

from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from braid.kernel.errors import Invalid
from braid.kernel.ports import HistoryId

_ROOT: Final = "/braid/v1/"
_RESERVED: Final = frozenset({"directory", "incarnation", "mesh"})
_SEQUENCE_DIGITS: Final = 20
_CHUNK_DIGITS: Final = 6
_LEADER_PARTS: Final = 2

INCARNATION: Final = f"{_ROOT}incarnation".encode()
MESH: Final = f"{_ROOT}mesh".encode()


class KeyRange(NamedTuple):
    """The keys from `start` up to, not including, `end`."""

    start: bytes
    end: bytes


def leader(service: str) -> bytes:
    """The key whose creation revision is the fence of a service's leadership."""
    return _key(_service(service), "leader")


def is_leader(key: bytes) -> bool:
    """Whether it is the leader key of a service, whichever."""
    parts = key.decode().removeprefix(_ROOT).split("/")
    return len(parts) == _LEADER_PARTS and parts[0] not in _RESERVED and parts[1] == "leader"


def endpoint(service: str, instance: str) -> bytes:
    """A replica's entry in the directory."""
    return _key("directory", _service(service), instance)


def directory() -> KeyRange:
    """All entries of the directory."""
    return prefix(_key("directory", ""))


def head(history: HistoryId) -> bytes:
    """The key that holds the last sequence of a history."""
    return _history(history) + b"head"


def batch(history: HistoryId, first: int) -> bytes:
    """The batch whose first event has this sequence."""
    return _history(history) + _number(first, _SEQUENCE_DIGITS)


def batches(history: HistoryId, below: int | None = None) -> KeyRange:
    """All batches of a history, or those whose first sequence is less than `below`."""
    end = _after_digits(_history(history)) if below is None else batch(history, below)
    return KeyRange(_history(history), end)


def histories(service: str) -> KeyRange:
    """All heads and batches of a service."""
    return prefix(_key(_service(service), "history", ""))


def manifest(history: HistoryId) -> bytes:
    """The key that names the chunks of the newest snapshot."""
    return _snapshot(history) + b"manifest"


def upload_name(sequence: int, unique: str) -> str:
    """Names one attempt to save a snapshot, so that two attempts never share a chunk."""
    return f"{sequence:0{_SEQUENCE_DIGITS}d}-{unique}"


def chunk(history: HistoryId, upload: str, index: int) -> bytes:
    """One piece of a snapshot."""
    return _chunks_prefix(history, upload) + _number(index, _CHUNK_DIGITS)


def chunks(history: HistoryId, upload: str) -> KeyRange:
    """All pieces of one snapshot."""
    return prefix(_chunks_prefix(history, upload))


def chunks_of_others(history: HistoryId, upload: str) -> tuple[KeyRange, KeyRange]:
    """All pieces of every other snapshot of the history: what sorts before this one's, and what sorts after."""
    every = KeyRange(_snapshot(history), _after_digits(_snapshot(history)))
    own = chunks(history, upload)
    return KeyRange(every.start, own.start), KeyRange(own.end, every.end)


def everything() -> KeyRange:
    """All keys of Braid."""
    return prefix(_ROOT.encode())


def parse_history(key: bytes) -> tuple[HistoryId, int | None] | None:
    """The history a key under `histories` belongs to, and the batch's first sequence or None for its head.

    Returns None for a key of no known form: a later release may keep more there.
    """
    parts = key.decode().removeprefix(_ROOT).split("/")
    if len(parts) != 5 or parts[1] != "history":
        return None
    service, kind, name = unquote(parts[0]), unquote(parts[2]), unquote(parts[3])
    if parts[4] == "head":
        return HistoryId(service, kind, name), None
    return (HistoryId(service, kind, name), int(parts[4])) if parts[4].isdecimal() else None


def prefix(start: bytes) -> KeyRange:
    """All keys that begin with `start`, whose last byte is not 0xFF."""
    return KeyRange(start, start[:-1] + bytes([start[-1] + 1]))


def _history(history: HistoryId) -> bytes:
    return _key(_service(history.service), "history", history.kind, history.id, "")


def _snapshot(history: HistoryId) -> bytes:
    return _key(_service(history.service), "snapshot", history.kind, history.id, "")


def _chunks_prefix(history: HistoryId, upload: str) -> bytes:
    return _snapshot(history) + upload.encode() + b"/"


def _after_digits(start: bytes) -> bytes:
    return start + b":"  # the character after '9', before any letter


def _number(value: int, digits: int) -> bytes:
    return f"{value:0{digits}d}".encode()


def _service(service: str) -> str:
    if service in _RESERVED or not service:
        raise Invalid(f"{service!r} cannot name a service in the store", field="service")
    return service


def _key(*parts: str) -> bytes:
    return (_ROOT + "/".join(quote(part, safe="") for part in parts)).encode()
