"""Audit records as JSON lines, appended to a file or to the standard output. Rotation is the platform's.

The file is opened for each write, so one that was renamed or removed is made anew.
"""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from braid.kernel.audit.calls import AuditRecord
from braid.kernel.audit.fields import fields_of
from braid.kernel.errors import Invalid
from braid.kernel.limits.access.audit import AUDIT_BUFFER_RECORDS_MAX
from braid.runtime.plain_structlog import structlog
from braid.runtime.telemetry import Metrics

STANDARD_OUTPUT: Final = "-"
_MODE: Final = 0o600
_STDOUT: Final = 1


class JsonLines:
    """Where one replica's records go as lines. What cannot be written waits, within a bound, and is tried again."""

    def __init__(
        self, log: str, service: str, instance: str, metrics: Metrics, logger: structlog.stdlib.BoundLogger
    ) -> None:
        """Writes to the file `log`; `-` is the standard output, and empty nothing.

        Raises:
            Invalid: the file cannot be written.
        """
        self._log = log
        self._service = service
        self._instance = instance
        self._metrics = metrics
        self._logger = logger
        self._waiting: list[bytes] = []
        self._failing = False
        if log:
            self._try()

    @property
    def waiting(self) -> int:
        """How many lines are not written yet."""
        return len(self._waiting)

    def add(self, records: Iterable[AuditRecord]) -> None:
        """Takes records, to be written by `write`. The oldest go where too many wait."""
        if not self._log:
            return
        for record in records:
            fields = fields_of(record, self._service, self._instance)
            self._waiting.append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        dropped = len(self._waiting) - AUDIT_BUFFER_RECORDS_MAX
        if dropped > 0:
            del self._waiting[:dropped]
            self._logger.error("audit lines are lost", count=dropped, file=self._log)

    def write(self) -> None:
        """Writes what waits; blocks as files do. An error is logged, and counted, once."""
        if not self._waiting:
            return
        data, count = b"".join(self._waiting), len(self._waiting)
        try:
            self._append(data)
        except OSError as error:
            if not self._failing:
                self._logger.warning("audit lines cannot be written: they wait", file=self._log, error=str(error))
            self._failing = True
        else:
            del self._waiting[:count]
            self._failing = False
        self._metrics.audit.failing.labels("file").set(self._failing)

    def _try(self) -> None:
        try:
            self._append(b"")
        except OSError as error:
            remedy = "name a file in a directory that exists and may be written"
            raise Invalid(
                f"cannot write audit lines to {self._log}: {error}", field="audit_log", remedy=remedy
            ) from error

    def _append(self, data: bytes) -> None:
        """Appends all or nothing. Raises `OSError`."""
        if self._log == STANDARD_OUTPUT:
            sys.stdout.flush()
            _write_all(_STDOUT, data)
            return
        descriptor = os.open(Path(self._log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        try:
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, data)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, size)  # half a line would be in the way of whoever reads lines
                raise
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
