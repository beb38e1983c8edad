"""The use of the machine's cores: it tells a suite that costs too much from one that waits.

Linux counts in `/proc/stat` for all cores together, and keeps what has a lower priority (`tools.idly`) apart. Elsewhere
only the wall is known.
"""

from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

_STAT: Final = Path("/proc/stat")


class Ticks(NamedTuple):
    """Ticks of all cores since the machine started, as `/proc/stat` counts them.

    Attributes:
        usual: Of processes of the usual priority, and of the system for them.
        beside: Of processes of a lower one.
        free: In which a core had nothing to do.
    """

    usual: int = 0
    beside: int = 0
    free: int = 0


class CoreUse(NamedTuple):
    """Shares of the cores' time in a period.

    Attributes:
        seconds: By the wall.
        usual: Share of the cores' time that went to processes of the usual priority, from 0 to 1.
        beside: Share that went to processes of a lower one.
    """

    seconds: float
    usual: float | None = None
    beside: float | None = None

    def __str__(self) -> str:
        """Says it in a line."""
        if self.usual is None or self.beside is None:
            return f"{self.seconds:.0f} s"
        return f"{self.seconds:.0f} s; it took {self.usual:.0%} of the cores, and what runs beside {self.beside:.0%}"


class Meter:
    """Measures from its creation on."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._began = monotonic()
        self._first = _ticks(stat)

    def read(self) -> CoreUse:
        """Returns how the cores were used until now."""
        seconds = monotonic() - self._began
        last = _ticks(self._stat)
        passed = [after - before for before, after in zip(self._first or (), last or (), strict=False)]
        if not sum(passed):
            return CoreUse(seconds)
        usual, beside, _ = (each / sum(passed) for each in passed)
        return CoreUse(seconds, usual, beside)


def parse(stat: str) -> Ticks:
    """Reads the first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal."""
    user, nice, system, idle, waiting, hard, soft, *_ = (int(each) for each in stat.splitlines()[0].split()[1:])
    return Ticks(user + system + hard + soft, nice, idle + waiting)


def _ticks(stat: Path) -> Ticks | None:
    return parse(stat.read_text(encoding="ascii")) if stat.exists() else None
