"""Keeps a checkpoint of one cluster's commits in a file, so that a restart reads minutes of the offset log.

A checkpoint is used only while compaction cannot have removed a tombstone that was written after it. Brokers keep
tombstones for `delete.retention.ms`, a day unless somebody changed it; `LAG_CHECKPOINT_AGE_SECONDS` is far below.
"""

import hashlib
from contextlib import suppress
from functools import partial

from structlog.stdlib import BoundLogger

from braid.kernel.limits.lagmon.sampling import LAG_CHECKPOINT_AGE_SECONDS, LAG_CHECKPOINT_BYTES_MAX
from braid.kernel.ports import Host
from services.lagmon.columns.checkpoint import Checkpoint, DamagedCheckpoint, read_checkpoint, write_checkpoint
from services.lagmon.kept.files import Files


def checkpoint_file(cluster: str) -> str:
    """Names the file of a cluster's checkpoint."""
    return f"offsets-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"


class Checkpoints:
    """The checkpoint file of one cluster. What goes wrong with it is logged, and costs only a longer start."""

    def __init__(self, host: Host, files: Files, cluster: str, log: BoundLogger) -> None:
        self._host = host
        self._files = files
        self._name = checkpoint_file(cluster)
        self._log = log
        self._saving = False

    async def load(self, topic_id: bytes) -> Checkpoint | None:
        """Returns the checkpoint of an offset log; None for one that is too old, or of another log."""
        try:
            found = await self._host.tasks.run_blocking(self._read)
        except FileNotFoundError:
            return None
        except (OSError, DamagedCheckpoint) as error:
            self._log.warning("a checkpoint of offsets cannot be read; the whole log is read", error=str(error))
            return None
        age_seconds = (self._host.clock.now_ms() - found.time_ms) / 1_000
        if not 0 <= age_seconds <= LAG_CHECKPOINT_AGE_SECONDS or not topic_id or found.topic_id != topic_id:
            self._log.info("a checkpoint of offsets is not used", age_seconds=age_seconds)
            return None
        return found

    def save(self, found: Checkpoint) -> None:
        """Begins to write a checkpoint, unless the one before is still being written."""
        if not self._saving:
            self._saving = True
            self._host.tasks.spawn(self._save(found), self._name)

    async def _save(self, found: Checkpoint) -> None:
        try:
            await self._host.tasks.run_blocking(partial(self._write, found))
        except OSError as error:
            self._log.warning("a checkpoint of offsets was not written", error=str(error))
        finally:
            self._saving = False

    def remove(self) -> None:
        """Removes the file of a cluster that is gone. Blocks."""
        with suppress(OSError):  # it stays, and is not used again: another cluster of the name has another log
            self._files.remove(self._name)

    def _read(self) -> Checkpoint:
        return read_checkpoint(self._files.read(self._name, 0, LAG_CHECKPOINT_BYTES_MAX))

    def _write(self, found: Checkpoint) -> None:
        data = write_checkpoint(found)
        if len(data) > LAG_CHECKPOINT_BYTES_MAX:
            raise OSError(f"it has {len(data)} bytes, more than {LAG_CHECKPOINT_BYTES_MAX}")
        self._files.write(self._name, data)
