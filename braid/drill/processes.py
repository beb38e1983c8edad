"""The processes of a drill: started, given orders, ended or killed. If the drill dies, they end."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from braid.drill.arguments import ProcessSpec
from braid.drill.orders import Refuse
from braid.host.tls.paths import Tls, environment_of
from braid.kernel.limits.registry.drill import DRILL_END_SECONDS


class DrillProcess:
    """One process of a drill. Its output goes to a file beside its ledger or sink."""

    def __init__(self, spec: ProcessSpec, process: asyncio.subprocess.Process) -> None:
        self.spec = spec
        self._process = process

    @classmethod
    async def start(cls, module: str, spec: ProcessSpec, tls: Tls | None = None) -> "DrillProcess":
        """Runs a module as a process. Ctrl-C at the terminal reaches only the drill, which ends its processes in order.

        The process reaches the mesh with the files of `tls`, else with those of this process's environment.
        """
        with log_of(spec).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *spec.arguments(),
                env={**os.environ, **environment_of(tls)},
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return cls(spec, process)

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def order(self, order: Refuse) -> None:
        """Sends an order; a process that has ended ignores it."""
        assert self._process.stdin is not None, "it was started with a pipe"
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(order.line())
            await self._process.stdin.drain()

    async def kill(self) -> None:
        """Kills the process by SIGKILL."""
        if self.running:
            self._process.kill()
        await self._process.wait()

    async def end(self, seconds: float = DRILL_END_SECONDS) -> None:
        """Ends its orders and waits; kills it if it does not end in time."""
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            await self.kill()


def log_of(spec: ProcessSpec) -> Path:
    """The output of a process so far."""
    return spec.file.with_suffix(".log")
