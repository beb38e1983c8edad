"""Backup and restore of a store in etcd: Braid's keys in a file, and back. Other keys in the same etcd are left alone.

A backup is a text file with a line for each key, read at one revision, and a checksum over all of them. While a restore
writes, it holds every service's leader key itself: whoever starts meanwhile, or after a restore that was killed, leads
nothing. The last transaction writes the new incarnation and lets the leader keys go.
"""

import json
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from braid.host import private_files
from braid.host.store_credentials import StoreCredentials
from braid.kernel.errors import Invalid, StoreUnavailable
from braid.kernel.limits.store import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from braid.kernel.ports import Clock, Endpoint
from braid.stores.backups import StoreFacts, check_mesh, check_stopped, next_incarnation
from braid.stores.etcd import keys, requests
from braid.stores.etcd.client import EtcdClient
from braid.stores.etcd.election import read_endpoint, store_endpoint
from braid.stores.etcd.watching import read_incarnation
from braid.stores.etcd_wire import etcd_pb2 as wire

RESTORER: Final = "braid-store-restore"
_FORMAT: Final = "braid-store-backup/1"
_SERVICES: Final = ("registry", "assigner", "lagmon", "dlq")
_PAGE: Final = 500
_Row = tuple[bytes, bytes]


async def back_up(
    endpoints: Sequence[str], clock: Clock, file: Path, credentials: StoreCredentials | None = None
) -> StoreFacts:
    """Copies Braid's keys at one revision into a new file; services may go on meanwhile.

    Raises:
        Invalid: the file exists already.
        StoreUnavailable: etcd does not answer, or holds no store.
    """
    _check_new(file)
    client = EtcdClient(endpoints, clock, credentials)
    try:
        rows = [row for row in await _read(client) if not _is_bound(row[0])]
    finally:
        await client.close()
    facts = _facts(rows)
    if not facts.incarnation:
        raise StoreUnavailable("there is no store in this etcd", field="--store")
    _write(file, rows)
    return facts


async def restore(
    endpoints: Sequence[str],
    clock: Clock,
    file: Path,
    credentials: StoreCredentials | None = None,
    *,
    dry_run: bool = False,
) -> StoreFacts:
    """Puts a backup in the place of the store, under a new incarnation. May be repeated, and must be after it failed.

    Raises:
        Invalid: the file is no backup, is damaged, or is another mesh's.
        Refused: services use the store.
        StoreUnavailable: etcd does not answer.
    """
    rows = _load(file)
    backup = _facts(rows)
    client = EtcdClient(endpoints, clock, credentials)
    try:
        present = await _read(client)
        check_stopped(_running(present))
        before = _facts(present) if _facts(present).incarnation else None
        check_mesh(backup, before, str(file))
        found = StoreFacts(backup.mesh, next_incarnation(backup, before, clock.now_ms()), backup.histories)
        if not dry_run:
            await _replace(client, rows, present, found.incarnation)
    finally:
        await client.close()
    return found


async def begin_incarnation(
    endpoints: Sequence[str], clock: Clock, credentials: StoreCredentials | None = None, *, dry_run: bool = False
) -> StoreFacts:
    """Begins a new incarnation of a store that etcd's own tools put back. Raises as `restore`."""
    client = EtcdClient(endpoints, clock, credentials)
    try:
        present = await _read(client)
        check_stopped(_running(present))
        before = _facts(present)
        if not before.incarnation:
            raise StoreUnavailable("there is no store in this etcd", field="--store")
        incarnation = next_incarnation(before, None, clock.now_ms())
        if not dry_run:
            await client.transact(_finish(incarnation))
        return StoreFacts(before.mesh, incarnation, before.histories)
    finally:
        await client.close()


async def _read(client: EtcdClient) -> list[_Row]:
    """Reads all of Braid's keys at one revision, in order."""
    every, rows = keys.everything(), list[_Row]()
    start, revision = every.start, 0
    while True:
        request = requests.scan(keys.KeyRange(start, every.end), limit=_PAGE, revision=revision)
        answer = await client.read(request)
        revision = revision or answer.revision
        page = [(kv.key, kv.value) for kv in answer.found[0]]
        rows += page
        if len(page) < _PAGE:
            return rows
        start = page[-1][0] + b"\0"


def _is_bound(key: bytes) -> bool:
    """Whether a key belongs to a session: the leader keys and the directory."""
    directory = keys.directory()
    return directory.start <= key < directory.end or keys.is_leader(key)


def _running(rows: Sequence[_Row]) -> list[str]:
    found = [read_endpoint(wire.KeyValue(value=value)).instance for key, value in rows if _is_bound(key)]
    return sorted({each for each in found if each != RESTORER})


def _facts(rows: Sequence[_Row]) -> StoreFacts:
    known: Mapping[bytes, bytes] = dict(rows)
    incarnation = known.get(keys.INCARNATION)
    number = read_incarnation(None if incarnation is None else wire.KeyValue(value=incarnation))
    heads = sum(key.endswith(b"/head") for key in known)
    return StoreFacts(known.get(keys.MESH, b"").decode(), number, heads)


async def _replace(client: EtcdClient, rows: Sequence[_Row], present: Sequence[_Row], incarnation: int) -> None:
    kept = {keys.INCARNATION, *(keys.leader(each) for each in _SERVICES)}
    held = [requests.put(keys.leader(each), store_endpoint(Endpoint(each, RESTORER, ""))) for each in _SERVICES]
    await client.transact(wire.TxnRequest(success=held))
    wanted = {key for key, _ in rows}
    gone = [requests.delete(key) for key, _ in present if key not in wanted and key not in kept]
    writes = [requests.put(key, value) for key, value in rows if key not in kept]
    for some in _batches([*gone, *writes]):
        await client.transact(wire.TxnRequest(success=some))
    await client.transact(_finish(incarnation))


def _finish(incarnation: int) -> wire.TxnRequest:
    freed = [requests.delete(keys.leader(each)) for each in _SERVICES]
    return wire.TxnRequest(success=[requests.put(keys.INCARNATION, str(incarnation).encode()), *freed])


def _batches(writes: Sequence[wire.RequestOp]) -> Iterator[list[wire.RequestOp]]:
    """Cuts pairs into batches that fit one transaction."""
    batch: list[wire.RequestOp] = []
    size = 0
    for write in writes:
        weight = write.ByteSize()
        if batch and (len(batch) == APPEND_EVENTS_MAX or size + weight > APPEND_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(write)
        size += weight
    if batch:
        yield batch


def _write(file: Path, rows: Sequence[_Row]) -> None:
    """Writes a line with the number of pairs and their checksum, then a line for each pair in base 64."""
    part = file.with_name(f".{file.name}.part")
    head = json.dumps({"format": _FORMAT, "pairs": len(rows), "crc": _crc(rows)})
    lines = [head, *(f"{b64encode(key).decode()} {b64encode(value).decode()}" for key, value in rows)]
    with private_files.write_file(part) as writing:
        writing.write(("\n".join(lines) + "\n").encode("ascii"))
        writing.flush()
        os.fsync(writing.fileno())
    part.replace(file)


def _check_new(file: Path) -> None:
    if file.exists():
        raise Invalid(f"{file} exists already", field="FILE", remedy="name a new file")


def _load(file: Path) -> list[_Row]:
    """Reads a backup file. Raises `Invalid`."""
    if not file.exists():
        raise Invalid(f"there is no file {file}", field="FILE")
    try:
        head, *lines = file.read_text(encoding="ascii").splitlines()
        manifest = json.loads(head)
        pairs = [line.split(" ") for line in lines]
        rows = [(b64decode(key, validate=True), b64decode(value, validate=True)) for key, value in pairs]
    except ValueError as error:
        message = f"{file} is no backup of a store in etcd, or is damaged: {error}"
        raise Invalid(message, field="FILE", remedy="name another backup") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise Invalid(f"{file} is no backup of a store in etcd", field="FILE", remedy="name another backup")
    if (manifest.get("pairs"), manifest.get("crc")) != (len(rows), _crc(rows)):
        message = f"the backup {file} is damaged: its checksum does not match"
        raise Invalid(message, field="FILE", remedy="name another backup")
    return rows


def _crc(rows: Sequence[_Row]) -> int:
    crc = 0
    for key, value in rows:
        crc = zlib.crc32(value, zlib.crc32(key, crc))
    return crc
