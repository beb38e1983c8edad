"""Rotations of the certificates between the etcd store and a real etcd, under load.

A CA changes as the guide says: both sides trust the old one and the new one; then come leaves of the new one; then it
is trusted alone. What etcd trusts it learns at its start: it trusts several CAs from the beginning, or its members
are restarted one after another.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key

from braid.host.store_credentials import StoreCredentials
from braid.host.system import system_host
from braid.host.tls.paths import Tls
from braid.kernel.ports import Leader, Session
from braid.stores.etcd import EtcdStore, requests
from braid.stores.etcd.client import RANGE
from testbed.authority import ALICE, Authority, write_files
from testbed.etcd_process import START_SECONDS, EtcdCluster, connected, etcd_cluster
from tests.contract.event_store.harness import LOGS, replica
from tests.integration.etcd.ledger import Appender, Running, Watcher
from tests.integration.etcd.secured import RELOAD_SECONDS
from tests.support.connection_counter import ConnectionCounter

_APPENDS_A_STEP = 5
_TTL_SECONDS = 20.0  # outlives elections of etcd on a machine that is busy


class Files:
    """The files of both sides, below a directory. etcd's key stays: it reads the pair at each handshake."""

    def __init__(self, directory: Path, key: EllipticCurvePrivateKey) -> None:
        self._directory = directory
        self._key = key

    @property
    def etcd(self) -> Tls:
        """The certificate that every member shows."""
        return _files(self._directory / "etcd")

    @property
    def client(self) -> Tls:
        """The certificate that the store shows."""
        return _files(self._directory / "client")

    def write(self, by: Authority, *trusted: Authority) -> None:
        """Writes new leaves, one file after the other, as `cp` does, and whom both sides trust."""
        pem = b"".join(each.pem for each in trusted)
        server = by.issue(uris=[ALICE], ips=["127.0.0.1"], key=self._key)
        write_files(self._directory / "etcd", *server, pem)
        write_files(self._directory / "client", *by.issue(uris=[ALICE]), pem)

    def stale_copy(self) -> Tls:
        """A copy of the client's files as they are now, which nobody renews."""
        return _files(shutil.copytree(self._directory / "client", self._directory / "stale"))


class Rotation:
    """A store that leads, appends and watches while certificates change."""

    def __init__(self, files: Files, cluster: EtcdCluster, stack: AsyncExitStack, cas: list[Authority]) -> None:
        self.files = files
        self.rotations = 0
        self._cluster = cluster
        self._stack = stack
        self._cas = cas
        self._counters = [ConnectionCounter(int(each.rpartition(":")[2])) for each in cluster.endpoints]
        for counter in self._counters:
            counter.start()
            stack.callback(counter.stop)
        self._store = self.opened(files.client)

    def opened(self, tls: Tls) -> EtcdStore:
        """A further store, closed with the test."""
        endpoints = [f"127.0.0.1:{counter.port}" for counter in self._counters]
        store = EtcdStore(endpoints, system_host(), StoreCredentials(tls))
        self._stack.push_async_callback(store.close)
        return store

    @property
    def connections(self) -> int:
        """How many connections the stores made."""
        return sum(counter.count for counter in self._counters)

    @asynccontextmanager
    async def loaded(self) -> AsyncIterator[None]:
        """Appends and watches meanwhile; at the end the watch has seen all, in order."""
        self._session: Session = await self._store.open_session(_TTL_SECONDS)
        self._leader: Leader = await self._store.campaign(replica("a"), self._session)
        self._appender = Appender(self._store, LOGS, self._leader)
        watcher = Watcher(self.opened(self.files.client), "registry")
        async with Running(self._appender.run, watcher.run):
            yield
            await self._appender.stop()
            events = (await self._store.load(LOGS)).events
            await watcher.saw(events)
        self._appender.ledger.check(events)

    async def rotate_leaves(self, count: int) -> None:
        """Issues new leaves by the present CA."""
        for _ in range(count):
            await self._change(self._cas[0], self._cas[0])

    async def rotate_ca(self, *, restart: bool = False) -> None:
        """Moves on to the next CA; with `restart`, etcd's members are told by restarts what to trust."""
        old, new = self._cas[:2]
        await self._change(old, old, new)
        if restart:
            await self._restart_members()
        await self._change(new, old, new)
        await self._change(new, new)
        if restart:
            await self._restart_members()
        del self._cas[0]

    def figures(self) -> str:
        """A line about what was done and what failed."""
        ledger = self._appender.ledger
        failed = len(ledger.refused) + len(ledger.unknown)
        return (
            f"{self.rotations} rotations: {len(ledger.acknowledged)} appends, {failed} failed, "
            f"{self.connections} connections"
        )

    async def check_kept(self) -> None:
        """Checks that session and leadership are those of the beginning.

        Raises:
            AssertionError: one moved.
        """
        assert system_host().clock.elapsed() < self._session.deadline(), "the session was lost"
        assert await self._store.leader("registry") == self._leader, "leadership moved"

    def check_no_call_failed(self) -> None:
        """Raises `AssertionError` when an append or a read failed, or was of unknown outcome."""
        ledger = self._appender.ledger
        assert not ledger.refused, f"refused: {ledger.refused}"
        assert not ledger.unknown, f"of unknown outcome: {ledger.unknown}"

    async def _change(self, by: Authority, *trusted: Authority) -> None:
        self.files.write(by, *trusted)
        self.rotations += 1
        await self._worked_on()

    async def _restart_members(self) -> None:
        for node in self._cluster.nodes:
            node.stop()
            self._cluster.restart(node)
            async with connected([node.endpoint], StoreCredentials(self.files.client)) as client:
                await client.call(RANGE, requests.get(b"x"), START_SECONDS)
            await self._worked_on()

    async def _worked_on(self) -> None:
        await system_host().clock.sleep(2 * RELOAD_SECONDS)  # the files are looked at again after so long
        await self._appender.acknowledged(more=_APPENDS_A_STEP)


def _files(directory: Path) -> Tls:
    return Tls(directory / "tls.crt", directory / "tls.key", directory / "ca.crt", RELOAD_SECONDS)


@asynccontextmanager
async def rotating(directory: Path, *, members: int, cas: int, trusted: int) -> AsyncIterator[Rotation]:
    """An etcd over mutual TLS that trusts the first of these CAs at its start, and a store of it."""
    authorities = [Authority.make(f"CA {number}") for number in range(cas)]
    files = Files(directory, generate_private_key(SECP256R1()))
    files.write(authorities[0], *authorities[:trusted])
    credentials = StoreCredentials(files.client)
    async with etcd_cluster(directory, members, files.etcd, credentials) as cluster, AsyncExitStack() as stack:
        yield Rotation(files, cluster, stack, authorities)
