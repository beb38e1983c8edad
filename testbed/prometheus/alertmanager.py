"""Obtains Alertmanager and runs it: from PATH, else Debian's pinned package, unpacked into the user's cache.

Run as `python -m testbed.prometheus.alertmanager` to have it now. Nothing is installed, and nobody needs to be root.
"""

import functools
import json
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from braid.kernel.errors import Unavailable
from devmesh.processes.guard import spawn_guarded
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.location import print_location
from testbed.patience import wait
from testbed.ports import free_port
from testbed.prometheus.binaries import from_debian

DEBIAN_VERSION: Final = "0.25.0-1+b4"
# By what `platform.machine` says; elsewhere Alertmanager has to be on PATH.
DEBIAN_SHA256: Final = {"x86_64": "4fb9aed15cfe8e0c32408e643ab32a1e41ee87d2cc26f18aeba928b1b0b98ae7"}
START_SECONDS: Final = 20.0
CALL_SECONDS: Final = 5.0

_ENTRY: Final = f"alertmanager-{DEBIAN_VERSION.split('-')[0]}"
_INSTALLED: Final = b"/usr/share/prometheus/alertmanager"
_NAMES: Final = ("prometheus-alertmanager", "alertmanager")  # Debian's name, and its authors'


@functools.cache
def alertmanager_binary() -> Path:
    """The server to run, looked up once per process. The first call on a machine obtains it, in a few seconds.

    Raises:
        Unavailable: none is installed, and none could be downloaded.
    """
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    return Path(found) if found is not None else obtain()


def obtain() -> Path:
    """Puts the server into the user's cache, unless it is there. A concurrent second process waits for the first.

    Raises:
        Unavailable: it could not be downloaded.
    """
    directory = cache_directory() / _ENTRY
    with resolving(_ENTRY) as work:
        if not directory.exists():
            wanted = DEBIAN_SHA256.get(platform.machine())
            if wanted is None or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
                reason = "there is no Alertmanager on PATH, and no package for this machine is pinned"
                raise Unavailable(reason, remedy="install Alertmanager 0.25 or newer")
            programs = from_debian(work, _NAMES[0], DEBIAN_VERSION, wanted)
            _take_templates_along(programs / _NAMES[0], programs.parent / "share" / "prometheus" / "alertmanager")
            programs.rename(directory)
    return directory / _NAMES[0]


def _take_templates_along(binary: Path, templates: Path) -> None:
    """Makes Debian's build look for its templates where it is started, as nothing is installed below `/usr/share`."""
    for template in templates.glob("*.tmpl"):
        template.rename(binary.parent / template.name)
    here = b"." + b"/" * (len(_INSTALLED) - 1)  # of the same length, for strings of the program have theirs beside them
    binary.write_bytes(binary.read_bytes().replace(_INSTALLED, here))


class Alertmanager:
    """A running server, as its API shows it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def alerts(self) -> list[Mapping[str, str]]:
        """Labels of the alerts that are not over."""
        with urlopen(f"{self.url}/api/v2/alerts", timeout=CALL_SECONDS) as answer:
            return [each["labels"] for each in json.load(answer)]

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urlopen(f"{self.url}/-/ready", timeout=CALL_SECONDS):
                return True
        except OSError:
            return False


@contextmanager
def running_alertmanager(directory: Path, receiver: str) -> Iterator[Alertmanager]:
    """A server that tells a webhook at the URL `receiver` at once what fires and what is over."""
    directory.mkdir(parents=True, exist_ok=True)
    hooks = [{"url": receiver, "send_resolved": True}]
    route = {"receiver": "all", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"}
    config = directory / "alertmanager.yml"  # JSON is YAML, too
    config.write_text(json.dumps({"route": route, "receivers": [{"name": "all", "webhook_configs": hooks}]}))
    server = Alertmanager(f"http://127.0.0.1:{free_port()}")
    process = spawn_guarded(_command(config, directory, server.url), directory / "alertmanager.log")
    try:
        wait(server.ready, "Alertmanager answers", START_SECONDS, poll=0.1)
        yield server
    finally:
        process.terminate()
        process.wait()


def _command(config: Path, directory: Path, url: str) -> Sequence[str]:
    flags = {
        "config.file": str(config),
        "storage.path": str(directory / "data"),
        "web.listen-address": url.removeprefix("http://"),
        "cluster.listen-address": "",  # alone
    }
    binary = alertmanager_binary()
    there = ("sh", "-c", 'cd "$0" && exec "$@"', str(binary.parent))
    return [*there, str(binary), *(f"--{name}={value}" for name, value in flags.items())]


if __name__ == "__main__":
    sys.exit(print_location(alertmanager_binary))
