"""Processes of a mesh and their verbs: service replicas and a single etcd; Kafka's are in `devmesh.processes.brokers`.

Calls block: asynchronous callers run them beside their loop.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from braid.host.tls.paths import Tls
from braid.kernel.errors import Refused, Unavailable
from devmesh.blueprint import ServicePlace, StorePlace, service_command, service_settings, store_arguments
from devmesh.files import remove
from devmesh.limits import DEV_POLL_SECONDS, DEV_STOP_SECONDS
from devmesh.processes import wall_clock
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded

_OF_OTHERS: Final = ("BRAID_TLS_", "BRAID_ACCESS", "BRAID_ADMINS")


class Process:
    """One process of a mesh: a program whose output goes to the file at `log_path`."""

    def __init__(self, name: str, log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._log_start = 0
        self._process: Child | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs (paused counts), else None."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Starts it; `wait_ready` tells when it answers. Raises `Refused` when it runs already."""
        raise NotImplementedError

    def kill(self) -> None:
        """Ends it at once (SIGKILL), paused or not. Fine when it does not run."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        """Freezes it (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a frozen one go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def stop(self, seconds: float | None = None) -> bool:
        """Ends it in order (SIGTERM), then by force when it takes longer. Fine when it does not run.

        Returns:
            Whether it ended in order.
        """
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(DEV_STOP_SECONDS if seconds is None else seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._process is None or self._process.returncode != -signal.SIGKILL

    def wait_ready(self, timeout: float) -> None:
        """Waits until it serves.

        Args:
            timeout: Seconds.

        Raises:
            Unavailable: it ended, or did not answer in time; the message ends with its last words.
        """
        deadline = time.monotonic() + timeout
        while not self._serves():
            if self.pid is None:
                raise Unavailable(f"{self.name} ended while starting: {self.last_words()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"{self.name} is not ready after {timeout:.0f} s: {self.last_words()}")
            time.sleep(DEV_POLL_SECONDS)

    def _serves(self) -> bool:
        raise NotImplementedError

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        if self.pid is not None:
            raise Refused(f"{self.name} is running already", remedy="kill or stop it first")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = spawn_guarded(command, self.log_path, environment)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def last_words(self) -> str:
        """The reason it left in its log, or where that is: our services end with it."""
        if not self.log_path.exists():
            return "it wrote nothing"
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it wrote nothing"


class ServiceProcess(Process):
    """One replica of a service.

    Args:
        instance: `registry-0`; the module run is `services.registry`.
        directory: Holds its log, its ready file and what it keeps.
        address: Where it serves control RPCs, `host:port`.
        store: URL of the event store.
        command: What runs instead of the module.
        tls: What it shows and whom it trusts; None for plain text.
        admins: As in `ServicePlace`.
    """

    def __init__(
        self,
        instance: str,
        directory: Path,
        address: str,
        store: str,
        *,
        command: Sequence[str] | None = None,
        tls: Tls | None = None,
        admins: Sequence[str] = (),
    ) -> None:
        super().__init__(instance, directory / "service.log")
        self._command = list(command or service_command(instance))
        self._ready_file = directory / "ready.json"
        self._metrics: tuple[int | None, str] = (None, "")
        home, ready_file = str(directory), str(self._ready_file)
        place = ServicePlace(instance, store, address, address, "127.0.0.1:0", home, ready_file, tls, admins=admins)
        self._settings = {**service_settings(place), wall_clock.SETTING: str(wall_clock.offset_file(directory))}

    @property
    def metrics(self) -> str:
        """Address of its metrics, empty until it serves. Read once from each start: a supervisor asks all the time."""
        pid = self.pid
        if pid is None or self._metrics[0] != pid:
            try:
                self._metrics = (pid, str(json.loads(self._ready_file.read_text())["metrics"]))
            except FileNotFoundError:
                return ""
        return self._metrics[1]

    def start(self) -> None:
        """Starts it; `wait_ready` tells when it answers. Raises `Refused` when it runs already."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.pid is None:
            remove(self._ready_file)
        self._spawn(self._command, {**_inherited(), **self._settings, "BRAID_PARENT_PID": str(os.getpid())})

    def _serves(self) -> bool:
        return self._ready_file.exists()


def _inherited() -> dict[str, str]:
    """This process's environment without its settings of TLS and access: they are of another process or mesh."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}


class EtcdProcess(Process):
    """A process that is a member of etcd. A single one does not sync: its writes survive the death of the process, not
    of the machine.

    Args:
        binary: The server.
        directory: Holds its log.
        place: Its name, ports and data.
        members: All, this one among them.
    """

    def __init__(self, binary: Path, directory: Path, place: StorePlace, members: Sequence[StorePlace]) -> None:
        super().__init__(place.name, directory / "etcd.log")
        self._port = place.port
        self._command = [str(binary), *store_arguments(place, members)]

    def start(self) -> None:
        """Starts it; `wait_ready` tells when it answers. Raises `Refused` when it runs already."""
        self._spawn(self._command)

    def _serves(self) -> bool:
        """Asks `/health`, which answers 200 once there is a leader."""
        request = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nConnection: close\r\n\r\n"
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1.0) as connection:
                connection.settimeout(1.0)
                connection.sendall(request.encode())
                return b" 200 " in connection.recv(64)
        except OSError:
            return False
