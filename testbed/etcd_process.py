"""Real etcd members for tests: started on free ports and in fresh directories, killed, paused, compacted, restored.

Fast, not durable: writes are not synced, so they survive the death of a process but not of the machine.
"""

import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from braid.host.store_credentials import StoreCredentials
from braid.host.system import SystemClock
from braid.host.tls.paths import Tls
from braid.kernel.errors import StoreUnavailable
from braid.stores.etcd import keys, requests
from braid.stores.etcd.client import RANGE, EtcdClient, Method
from braid.stores.etcd_wire import etcd_pb2 as wire
from devmesh.processes.forks.child import Child
from devmesh.processes.guard import spawn_guarded
from devmesh.toolchain.etcd_binary import etcd_binary
from testbed.ports import free_ports

COMPACT: Final = Method("/etcdserverpb.KV/Compact", wire.CompactionRequest, wire.CompactionResponse)
STATUS: Final = Method("/etcdserverpb.Maintenance/Status", wire.StatusRequest, wire.StatusResponse)
START_SECONDS: Final = 20.0
# A single member elects itself; with these it does so in 0.2 s instead of 1 s. Clusters keep etcd's defaults.
_HASTY: Final = ("--heartbeat-interval", "20", "--election-timeout", "200")


class EtcdNode:
    """One member: a process that can be killed and started again over its data.

    It serves clients over mutual TLS with the files of `tls`, or in plain text.
    """

    def __init__(self, name: str, directory: Path, client_port: int, peer_port: int, tls: Tls | None = None) -> None:
        self.name = name
        self.tls = tls
        self.endpoint = f"127.0.0.1:{client_port}"
        self.peer_url = f"http://127.0.0.1:{peer_port}"
        self.data = directory / name
        self._log = directory / f"{name}.log"
        self._process: Child | None = None

    def start(self, cluster: Sequence["EtcdNode"], *flags: str) -> None:
        """Starts it as a member of a cluster."""
        url = f"http{'s' if self.tls else ''}://{self.endpoint}"
        command = [
            *(str(etcd_binary()), "--name", self.name, "--data-dir", str(self.data)),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
            *("--initial-cluster", ",".join(f"{node.name}={node.peer_url}" for node in cluster)),
            *(
                "--unsafe-no-fsync",
                "--bcrypt-cost",
                "4",
                "--log-level",
                "error",
                *(_HASTY if len(cluster) == 1 else ()),
                *flags,
            ),
            *(_tls_flags(self.tls) if self.tls else ()),
        ]
        self._process = spawn_guarded(command, self._log)

    def kill(self) -> None:
        """Kills it by SIGKILL, even if it is paused; it can be started again."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ends it in order, as an operator does; it stays startable."""
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stops it by SIGSTOP: its connections stay open and silent."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} does not run"
        self._process.send_signal(number)


class EtcdCluster:
    """An etcd cluster of one or three members.

    Args:
        directory: Of their data.
        size: How many.
        tls: What they show clients, and whom they trust; None for plain text.
        credentials: What the test's own client shows.
    """

    def __init__(
        self, directory: Path, size: int, tls: Tls | None = None, credentials: StoreCredentials | None = None
    ) -> None:
        ports = free_ports(2 * size)
        self.nodes = [EtcdNode(f"n{i}", directory, ports[2 * i], ports[2 * i + 1], tls) for i in range(size)]
        self.credentials = credentials
        self._directory = directory

    @property
    def endpoints(self) -> list[str]:
        """All members' addresses."""
        return [node.endpoint for node in self.nodes]

    async def start(self) -> None:
        """Starts all members and waits until the cluster serves."""
        for node in self.nodes:
            node.start(self.nodes)
        await self.serving()

    def restart(self, node: EtcdNode) -> None:
        """Starts a killed member again."""
        node.start(self.nodes)

    async def serving(self) -> None:
        """Waits until a quorum answers."""
        async with self.client() as client:
            await client.call(RANGE, requests.get(b"x"), START_SECONDS)

    async def leader(self) -> EtcdNode:
        """The member that leads."""
        for node in self.nodes:
            async with connected([node.endpoint], self.credentials) as client:
                status = await client.call(STATUS, wire.StatusRequest())
            if status.leader == status.header.member_id:
                return node
        raise StoreUnavailable("no member of the test's etcd says it leads")

    async def revision(self) -> int:
        """The store's revision."""
        async with self.client() as client:
            return (await client.read(requests.get(keys.INCARNATION))).revision

    async def compact(self) -> None:
        """Compacts the store to the newest value of each key."""
        async with self.client() as client:
            revision = (await client.read(requests.get(keys.INCARNATION))).revision
            await client.call(COMPACT, wire.CompactionRequest(revision=revision, physical=True))

    async def delete(self, key: bytes) -> None:
        """Damages the store by deleting a key."""
        async with self.client() as client:
            await client.transact(wire.TxnRequest(success=[requests.delete(key)]))

    def back_up(self) -> Path:
        """Copies the data of a one-member cluster, which is stopped for it."""
        (node,) = self.nodes
        node.kill()
        backup = self._directory / "backup"
        shutil.copytree(node.data, backup)
        return backup

    def put_back(self, backup: Path) -> None:
        """Replaces the data of a one-member cluster by a backup, without starting it."""
        (node,) = self.nodes
        node.kill()
        shutil.rmtree(node.data)
        shutil.copytree(backup, node.data)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[EtcdClient]:
        """A client of all members."""
        async with connected(self.endpoints, self.credentials) as client:
            yield client

    def stop(self) -> None:
        """Ends every member."""
        for node in self.nodes:
            node.kill()


@asynccontextmanager
async def connected(endpoints: Sequence[str], credentials: StoreCredentials | None = None) -> AsyncIterator[EtcdClient]:
    """A client that is closed afterwards."""
    client = EtcdClient(endpoints, SystemClock(), credentials)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def etcd_cluster(
    directory: Path, size: int = 1, tls: Tls | None = None, credentials: StoreCredentials | None = None
) -> AsyncIterator[EtcdCluster]:
    """A running cluster, ended afterwards. Arguments as `EtcdCluster` takes them."""
    cluster = EtcdCluster(directory, size, tls, credentials)
    try:
        await cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _tls_flags(tls: Tls) -> Sequence[str]:
    files = ("--cert-file", str(tls.certificate), "--key-file", str(tls.key), "--trusted-ca-file", str(tls.ca))
    return (*files, "--client-cert-auth")
