"""Service processes of tests, without a whole mesh: forked of a process that has loaded the services, if there is one.

An interpreter that loads a service anew takes more than a second of a core. `testbed.mesh.preloaded_meshes` has such a
process; without it they start as programs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from braid._mesh import mesh_command
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded
from testbed.patience import until

_POLL_SECONDS: Final = 0.02
_END_SECONDS: Final = 60.0


class ServiceProcess:
    """A running service, in the words of `asyncio.subprocess.Process`; it ends with the tests at the latest."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._child.poll()

    async def wait(self) -> int:
        """Waits for its end; returns its exit code. Raises `AssertionError` where it does not end."""
        await until(lambda: self.returncode is not None, "the service ends", _END_SECONDS, _POLL_SECONDS)
        assert self._child.returncode is not None
        return self._child.returncode

    def terminate(self) -> None:
        """Asks it to end (SIGTERM)."""
        self._child.terminate()

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self._child.kill()


def start_service(module: str, log: Path, environment: Mapping[str, str]) -> ServiceProcess:
    """Starts a module such as `services.registry`, with this whole environment; what it prints is all of the log."""
    log.unlink(missing_ok=True)
    return ServiceProcess(spawn_guarded(mesh_command(module), log, environment))
