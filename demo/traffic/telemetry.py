"""This machine's own telemetry, read from /proc and from log files: what the demo ships.

Every observation is a reading of its own, taken when it says; nothing is made up and nothing is read back from memory.
Readings of processes and threads go by the lane `live`; counters of the host, logs and spans by the lane `bulk`.
"""

import itertools
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from demo.traffic.tails import Tail

PROC: Final = Path("/proc")
_SYSTEM_LOGS: Final = ("/var/log/*.log", "/var/log/*/*.log", "/var/log/syslog", "/var/log/messages")
_SYSTEM_LOG_BYTES: Final = 1 << 20  # of each, its end
_FIND_LOGS_SECONDS: Final = 1.0
_LOG_TEXT_MAX: Final = 4_096
_READINGS_PER_LOG_LINE: Final = 5  # old logs must not crowd out what happens now
_READ_BYTES: Final = 1 << 17


class Observation(NamedTuple):
    """One reading: what kind it is, whose (the record's key), and what it says (JSON)."""

    kind: str
    lane: str
    key: bytes
    value: bytes


class Table(NamedTuple):
    """A file of /proc with one counter, device or processor a line."""

    kind: str
    path: str
    header_lines: int = 0
    label: int = 0


TABLES: Final = (
    Table("cpu", "stat"),
    Table("memory", "meminfo"),
    Table("memory", "vmstat"),
    Table("interrupt", "interrupts", header_lines=1),
    Table("interrupt", "softirqs", header_lines=1),
    Table("network", "net/dev", header_lines=2),
    Table("network", "net/snmp"),
    Table("network", "net/netstat"),
    Table("disk", "diskstats", label=2),
    Table("pressure", "pressure/cpu"),
    Table("pressure", "pressure/io"),
    Table("pressure", "pressure/memory"),
    Table("load", "loadavg"),
)


class Machine:
    """Reads the whole machine again and again.

    Args:
        logs: Glob patterns of log files to follow from their beginning.
        proc: Where the kernel tells.
        now_ns: The wall clock, nanoseconds since the epoch.
    """

    def __init__(self, logs: Sequence[str], proc: Path = PROC, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._proc = proc
        self._now_ns = now_ns
        self._logs = Logs(logs, _SYSTEM_LOGS)

    def sweep(self) -> Iterator[Observation]:
        """One reading of everything there is: lazily, so that each is taken when it is asked for."""
        lines = self._logged()
        for number, reading in enumerate(self._readings(), 1):
            yield reading
            if number % _READINGS_PER_LOG_LINE == 0:
                yield from itertools.islice(lines, 1)

    def _readings(self) -> Iterator[Observation]:
        for pid in _numbers(self._proc):
            yield from self._process(pid)
        for table in TABLES:
            yield from self._rows(table)

    def _logged(self) -> Iterator[Observation]:
        for path, offset, text in self._logs.lines():
            fields = {"file": path, "offset": offset, "text": text}
            yield self._made("span" if path.endswith("spans.jsonl") else "log", "bulk", path, fields)

    def _process(self, pid: str) -> Iterator[Observation]:
        directory = self._proc / pid
        if (stat := _read(directory / "stat")) is None:
            return
        yield self._made("process", "live", pid, {"pid": int(pid), **_stat_fields(stat)})
        if io := _read(directory / "io"):
            counters = dict(line.split(": ", 1) for line in io.decode().splitlines())
            values = {name: int(value) for name, value in counters.items()}
            yield self._made("process-io", "live", pid, {"pid": int(pid), **values})
        threads = _numbers(directory / "task")
        for tid in threads if len(threads) > 1 else ():
            if (stat := _read(directory / "task" / tid / "stat")) is not None:
                fields = {"pid": int(pid), "tid": int(tid), **_stat_fields(stat)}
                yield self._made("thread", "live", f"{pid}/{tid}", fields)

    def _rows(self, table: Table) -> Iterator[Observation]:
        text = _read(self._proc / table.path)
        at_ns = self._now_ns()
        for number, line in enumerate((text or b"").decode("utf-8", "replace").splitlines()[table.header_lines :]):
            if words := line.split():
                label = words[table.label].rstrip(":") if table.label < len(words) else str(number)
                fields = {"source": table.path, "row": number, "name": label, "values": words[table.label + 1 :]}
                yield _observation(table.kind, "bulk", f"{table.path}/{label}", {"at_ns": at_ns, **fields})

    def _made(self, kind: str, lane: str, key: str, fields: dict[str, object]) -> Observation:
        return _observation(kind, lane, key, {"at_ns": self._now_ns(), **fields})


class Logs:
    """Log files named by patterns; files that appear later are found within a second.

    Args:
        whole: Patterns of files to be read from their beginning.
        ends: Patterns of files of which only the end is read.
    """

    def __init__(self, whole: Iterable[str], ends: Iterable[str]) -> None:
        self._patterns = [(pattern, None) for pattern in whole] + [(pattern, _SYSTEM_LOG_BYTES) for pattern in ends]
        self._tails: dict[str, Tail] = {}
        self._waiting: deque[tuple[str, int, str]] = deque()
        self._looked_at = float("-inf")

    def lines(self) -> Iterator[tuple[str, int, str]]:
        """New lines: path, offset, text. What is not asked for comes first in the next call."""
        if not self._waiting:
            self._find()
            self._read()
        while self._waiting:
            yield self._waiting.popleft()

    def _read(self) -> None:
        for path, tail in self._tails.items():
            for offset, text in tail.lines():
                if text.strip():
                    self._waiting.append((path, offset, text[:_LOG_TEXT_MAX].decode("utf-8", "replace")))

    def _find(self) -> None:
        if time.monotonic() - self._looked_at < _FIND_LOGS_SECONDS:
            return
        self._looked_at = time.monotonic()
        for pattern, last_bytes in self._patterns:
            for path in sorted(Path("/").glob(pattern.lstrip("/"))):
                if str(path) not in self._tails and path.is_file() and os.access(path, os.R_OK):
                    self._tails[str(path)] = Tail(path, last_bytes)


def _observation(kind: str, lane: str, key: str, fields: dict[str, object]) -> Observation:
    value = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode()
    return Observation(kind, lane, f"{kind}/{key}".encode(), value)


def _stat_fields(stat: bytes) -> dict[str, object]:
    """Reads `/proc/PID/stat`, by proc(5): name, state, faults, processor time in ticks, memory, last processor."""
    begin, _, end = stat.rpartition(b") ")
    words = end.split()
    return {
        "name": begin.partition(b"(")[2].decode("utf-8", "replace"),
        "state": words[0].decode(),
        "minor_faults": int(words[7]),
        "major_faults": int(words[9]),
        "user_ticks": int(words[11]),
        "system_ticks": int(words[12]),
        "threads": int(words[17]),
        "virtual_bytes": int(words[20]),
        "resident_pages": int(words[21]),
        "processor": int(words[36]),
    }


def _read(path: Path) -> bytes | None:
    """A small file's content; None where it has gone or is not ours to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _numbers(directory: Path) -> list[str]:
    """Names in a directory that are numbers: processes or threads."""
    try:
        return [name for name in os.listdir(directory) if name.isdigit()]  # noqa: PTH208 - twice as fast as iterdir
    except OSError:
        return []
