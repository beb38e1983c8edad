"""The console as a process of a mesh."""

import json
import os
from pathlib import Path
from typing import Final

from braid.host.console_links import sign_in_url
from braid.host.tls.paths import Tls
from devmesh.blueprint import CONSOLE, ConsolePlace, console_command, console_settings
from devmesh.files import remove
from devmesh.processes.process import Process

_OF_OTHERS: Final = ("BRAID_CONSOLE_", "BRAID_CONTEXT", "BRAID_TLS_", "BRAID_TOKEN")


class ConsoleProcess(Process):
    """The console of a mesh, which calls it as the mesh's user.

    Args:
        directory: Holds its log, its ready file and the key of one-time links.
        listen: Where browsers reach it, `host:port`.
        endpoint: Addresses of services, separated by commas.
        tls: What it shows services and whom it trusts; None for plain text.
    """

    def __init__(self, directory: Path, listen: str, endpoint: str, tls: Tls | None = None) -> None:
        super().__init__(CONSOLE, directory / "console.log")
        self._directory = directory
        self._ready_file = directory / "ready.json"
        place = ConsolePlace(listen, endpoint, str(directory), str(self._ready_file), tls)
        self._settings = console_settings(place)

    @property
    def address(self) -> str:
        """The address at which browsers find it, once it is ready."""
        return str(json.loads(self._ready_file.read_text())["console"])

    def sign_in(self, path: str, now_ms: int) -> str:
        """Returns an address that signs a browser in, once, and shows a page.

        Args:
            path: Of the page.
            now_ms: The time, since the epoch: the link is good for some minutes from then.
        """
        return sign_in_url(self.address, self._directory, path, now_ms)

    def start(self) -> None:
        """Starts it; `wait_ready` tells when it answers. Raises `Refused` when it runs already."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.pid is None:
            remove(self._ready_file)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
        parent = {"BRAID_CONSOLE_PARENT_PID": str(os.getpid())}
        self._spawn(console_command(), {**inherited, **self._settings, **parent})

    def _serves(self) -> bool:
        return self._ready_file.exists()
