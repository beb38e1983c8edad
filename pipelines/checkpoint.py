"""A checkpoint belongs to one stream, group and table; a note in it says which.

Spark's checkpoint says how far the query has read. Beside another table it would leave out what only the old table
holds, and with another stream or group its offsets mean nothing. So the note is written before the query starts, and
compared ever after.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid

NOTE: Final = "braid-event-store.json"
_SPARKS: Final = ("metadata", "offsets", "commits")


@dataclass(frozen=True)
class Binding:
    """The owner of a checkpoint: its stream, group and table. `table` is the table's identity, not its place."""

    stream: str
    group: str
    table: str


def check(checkpoint: Path, stream: str, group: str, table: str | None) -> None:
    """Refuses a checkpoint that belongs to another query, before anything starts.

    Args:
        checkpoint: Its directory, which may not exist.
        stream: To be read.
        group: Whose progress it is.
        table: Identity of the table; None when it does not exist yet.

    Raises:
        Invalid: with the part that differs and what to do.
    """
    found = _read(checkpoint)
    if found is None:
        return
    for field, noted, wanted in (("--stream", found.stream, stream), ("--group", found.group, group)):
        if noted != wanted:
            raise Invalid(
                f"the checkpoint {checkpoint} is of {field[2:]} {noted!r}, not {wanted!r}",
                field=field,
                remedy=f"say {field} {noted}, or name another --checkpoint",
            )
    if found.table != table:
        raise Invalid(
            f"the checkpoint {checkpoint} belongs to another table: rows it counts as read would be missing here",
            field="--checkpoint",
            remedy="name that table's directory, or a new --checkpoint with a new --group",
        )


def bind(checkpoint: Path, binding: Binding) -> None:
    """Writes the note that says whose a checkpoint is; does nothing if it exists.

    Raises:
        Invalid: the directory cannot be written.
    """
    note = checkpoint / NOTE
    if note.exists():
        return
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        beside = checkpoint / f".{NOTE}"
        with beside.open("w") as file:
            file.write(json.dumps(asdict(binding)))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(note)
    except OSError as error:
        raise Invalid(
            f"{checkpoint} cannot be written: {error.strerror}",
            field="--checkpoint",
            remedy="name a directory you may write",
        ) from error


def _read(checkpoint: Path) -> Binding | None:
    note = checkpoint / NOTE
    try:
        return Binding(**json.loads(note.read_text()))
    except FileNotFoundError:
        if any((checkpoint / name).exists() for name in _SPARKS):
            raise Invalid(
                f"{checkpoint} is the checkpoint of a query that is no event store",
                field="--checkpoint",
                remedy="name another directory",
            ) from None
        return None
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(
            f"{note} cannot be read: {error}", field="--checkpoint", remedy="name another --checkpoint and --group"
        ) from error
