"""Network namespaces for application processes, and links to them that can be cut.

A process in a namespace has its own network, joined to the machine's by one link. Brokers and services listen on
127.0.0.1, so that address leads over the link: the namespace has no loopback of its own, and both ends may route it
(`route_localnet`). A link is cut by a false hardware address of the neighbour: packets leave, nobody takes them, no one
is told. Each direction has its own.
"""

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from testbed.ground.field import NotPlayedError

_NOBODY: Final = "02:00:00:00:00:01"
_NUMBERS: Final = itertools.count()
_IPV4: Final = "/proc/sys/net/ipv4/conf"


@dataclass(frozen=True)
class Namespace:
    """A network of one process's own.

    Attributes:
        name: Of the namespace.
        link: The machine's end of the link; the other end is `inside`.
        outer: The machine's address on the link.
        inner: The namespace's.
    """

    name: str
    link: str
    outer: str
    inner: str

    @property
    def command(self) -> list[str]:
        """Goes before a command that is to run inside; the process keeps its id."""
        return ["ip", "netns", "exec", self.name]

    def cut_outgoing(self) -> None:
        """Drops the process's outgoing packets."""
        self._inside("ip", "neigh", "replace", self.outer, "lladdr", _NOBODY, "dev", "inside", "nud", "permanent")

    def cut_incoming(self) -> None:
        """Drops the process's incoming packets."""
        _run("ip", "neigh", "replace", self.inner, "lladdr", _NOBODY, "dev", self.link, "nud", "permanent")

    def heal(self) -> None:
        """The link carries everything again; fine when it does already."""
        with suppress(subprocess.CalledProcessError):
            self._inside("ip", "neigh", "del", self.outer, "dev", "inside")
        with suppress(subprocess.CalledProcessError):
            _run("ip", "neigh", "del", self.inner, "dev", self.link)

    def _inside(self, *command: str) -> None:
        _run(*self.command, *command)

    def _make(self) -> None:
        _run("ip", "netns", "add", self.name)
        _run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "inside", "netns", self.name)
        _run("ip", "addr", "add", f"{self.outer}/30", "dev", self.link)
        _run("ip", "link", "set", self.link, "up")
        _run("sh", "-c", f"echo 1 > {_IPV4}/{self.link}/route_localnet; echo 0 > {_IPV4}/{self.link}/rp_filter")
        inside = (
            f"ip addr add {self.inner}/30 dev inside && ip link set inside up && ip link set lo up"
            f" && echo 1 > {_IPV4}/inside/route_localnet && echo 0 > {_IPV4}/inside/rp_filter"
            f" && echo 0 > {_IPV4}/all/rp_filter && ip addr del 127.0.0.1/8 dev lo"
            f" && ip route add 127.0.0.1/32 via {self.outer} dev inside src {self.inner}"
        )
        self._inside("sh", "-c", inside)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace with a link that carries; gone after the block, like what still runs in it.

    Raises:
        NotPlayedError: this machine allows none; says why.
    """
    number = next(_NUMBERS)
    net = f"10.213.{number % 250}"
    made = Namespace(f"braid-chaos-{number}", f"braidchaos{number}", f"{net}.1", f"{net}.2")
    try:
        made._make()
    except (OSError, subprocess.CalledProcessError) as error:
        _remove(made)
        said = getattr(error, "stderr", "") or str(error)
        raise NotPlayedError(f"no network namespace can be made here: {said.strip()}") from error
    try:
        yield made
    finally:
        _remove(made)


def _remove(made: Namespace) -> None:
    for command in (("ip", "link", "del", made.link), ("ip", "netns", "del", made.name)):
        with suppress(OSError, subprocess.CalledProcessError):
            _run(*command)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
