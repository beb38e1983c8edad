"""The same table as a Delta log, for every reader that knows Delta.

The manifest is the truth; the log follows it. Publishing compares the files of a manifest with those of the log and
commits the difference in one transaction. The transaction carries the manifest's number under one application id (`txn`
action of the Delta protocol). It is not retried: it lands on exactly the version it was computed from. So it is safe to
publish again after a kill between the two commits, and a ghost with an older manifest finds a newer number, or a
conflict.
"""

import json
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from braid.kernel.errors import Fenced
from pipelines.table.manifest import DataFile, Manifest
from pipelines.table.rows import SCHEMA

APPLICATION: Final = "braid-table"


def publish(path: Path, manifest: Manifest, now_ms: int) -> bool:
    """Brings the log up to a manifest; returns whether anything changed.

    Raises:
        Fenced: another writer publishes.
    """
    log = _open(path)
    done = log.transaction_version(APPLICATION)
    if done is not None and done >= manifest.number:
        return False
    present = published(path, log)
    wanted = {file.name: file for file in manifest.files}
    adds = [_added(file, now_ms) for name, file in wanted.items() if name not in present]
    removes = [_removed(name, size, now_ms) for name, size in present.items() if name not in wanted]
    if not adds and not removes:
        return False
    properties = CommitProperties(
        max_commit_retries=0, app_transactions=[Transaction(APPLICATION, manifest.number, now_ms)]
    )
    try:
        log.create_write_transaction([*adds, *removes], "append", log.schema(), commit_properties=properties)
    except CommitFailedError as error:
        raise Fenced(
            f"another writer changes the Delta log of {path}", field="--table", remedy="end the other one"
        ) from error
    return True


def published(path: Path, log: DeltaTable | None = None) -> dict[str, int]:
    """Returns the files in the log, relative to the table, with their sizes in bytes."""
    log = log or DeltaTable(path)
    actions = log.get_add_actions()
    names = [unquote(str(name)) for name in actions.column("path").to_pylist()]
    return dict(zip(names, (int(size) for size in actions.column("size_bytes").to_pylist()), strict=True))


def _open(path: Path) -> DeltaTable:
    if DeltaTable.is_deltatable(str(path)):
        return DeltaTable(path)
    return DeltaTable.create(path, schema=SCHEMA, name=path.name, description="Records of a stream, each once")


def _added(file: DataFile, now_ms: int) -> AddAction:
    return AddAction(file.name, file.bytes, {}, now_ms, True, json.dumps({"numRecords": file.rows}))


def _removed(name: str, size: int, now_ms: int) -> RemoveAction:
    return RemoveAction(name, data_change=False, deletion_timestamp=now_ms, size=size)
