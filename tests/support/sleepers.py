"""Stand-ins for a mesh's processes: they sleep, answer at once or never, and heed signals as told."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devmesh.processes.process import Process

HEEDLESS: Final = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)
BRIEF: Final = "import sys, time; print('up', flush=True); time.sleep(0.2); sys.exit('registry-0: no disk')"
PLAIN: Final = "import time; print('up', flush=True); time.sleep(60)"
BROKEN: Final = "import sys; sys.exit('registry-0: the file is damaged')"


class Sleeper(Process):
    """A process that serves once it has written `up`."""

    def __init__(self, name: str, directory: Path, code: str = PLAIN) -> None:
        super().__init__(name, directory / f"{name.replace('/', '-')}.log")
        self.code = code
        self.starts = 0

    def start(self) -> None:
        """Starts it."""
        self.starts += 1
        self._spawn(self.command())

    def command(self) -> Sequence[str]:
        """The command line of the process."""
        return [sys.executable, "-I", "-S", "-c", self.code]

    def _serves(self) -> bool:
        return self.pid is not None and "up" in self.last_words()
