"""The etcd store as a user of etcd: a role for Braid's keys alone, tokens that end, passwords that change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from braid.host.store_credentials import StoreCredentials
from braid.host.system import system_host
from braid.kernel.errors import StoreAccessDenied, StoreUnavailable
from braid.stores.etcd import EtcdStore, requests
from braid.stores.etcd.client import EtcdClient
from braid.stores.etcd_wire import etcd_pb2 as wire
from testbed.authority import Authority
from testbed.etcd_process import EtcdCluster, connected
from tests.contract.event_store.harness import LOGS, append_each, replica, take, within
from tests.integration.etcd.ledger import Appender, Running, Watcher
from tests.integration.etcd.secured import (
    CHANGE_PASSWORD,
    USER,
    allow,
    client_files,
    forbid,
    password_file,
    switch_users_on,
    tls_cluster,
)
from tests.support.planted import credential

pytestmark = pytest.mark.untimed

_TTL_SECONDS = 10.0


@dataclass
class Secured:
    """An etcd with users, its operator, and what Braid's processes show."""

    cluster: EtcdCluster
    authority: Authority
    operator: EtcdClient
    password: Path
    stack: AsyncExitStack

    def store(self, user: str = USER, name: str = "registry-0") -> EtcdStore:
        """A store that names a user, with the password of the file; or, without one, whom its certificate names."""
        tls = client_files(self.authority, self.password.parent / name, name)
        credentials = StoreCredentials(tls, user, self.password if user else None)
        store = EtcdStore(self.cluster.endpoints, system_host(), credentials)
        self.stack.push_async_callback(store.close)
        return store

    async def change_password(self, password: str) -> None:
        """Does what `etcdctl user passwd` does: it ends every token of the user."""
        request = wire.AuthUserChangePasswordRequest(name=USER, password=credential(password))
        await self.operator.call(CHANGE_PASSWORD, request)


@asynccontextmanager
async def secured(directory: Path) -> AsyncIterator[Secured]:
    """The operator's certificate names the user root, who needs no password."""
    password = password_file(directory / "password", "first")
    async with tls_cluster(directory) as (cluster, authority), AsyncExitStack() as stack:
        operator = await stack.enter_async_context(connected(cluster.endpoints, cluster.credentials))
        await switch_users_on(operator, "first")
        yield Secured(cluster, authority, operator, password, stack)


async def test_a_role_for_braids_keys_is_all_that_is_needed(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        store, other = etcd.store(), etcd.store()
        session = await store.open_session(_TTL_SECONDS)
        await store.publish(replica("a"), session)
        leader = await store.campaign(replica("a"), session)
        await store.mesh()
        await append_each(store, LOGS, leader, ["one", "two"])
        assert [batch.history for batch in await take(other.watch("registry", 0), 2)] == [LOGS, LOGS]
        assert [each.instance for each in await store.directory()] == ["a"]
        await session.close()
        assert await store.leader("registry") is None


async def test_keys_of_others_stay_closed(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        credentials = StoreCredentials(client_files(etcd.authority, tmp_path / "c"), USER, etcd.password)
        async with connected(etcd.cluster.endpoints, credentials) as client:
            with pytest.raises(StoreAccessDenied, match="permission denied") as raised:
                await client.read(requests.get(b"/others"))
            assert raised.value.problem == "permission"
            with pytest.raises(StoreAccessDenied, match="permission denied"):
                await client.transact(wire.TxnRequest(success=[requests.put(b"/others", b"mine")]))


async def test_tokens_that_end_cost_no_call(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        store = etcd.store()
        session = await store.open_session(_TTL_SECONDS)
        leader = await store.campaign(replica("a"), session)
        appender, watcher = Appender(store, LOGS, leader), Watcher(etcd.store(), "registry")
        async with Running(appender.run, watcher.run):
            for number in range(4):
                await appender.acknowledged(more=10)
                password_file(etcd.password, "first" if number == 0 else f"changed {number - 1}", f"changed {number}")
                await etcd.change_password(f"changed {number}")
            await appender.acknowledged(more=10)
            await appender.stop()
            events = (await store.load(LOGS)).events
            await watcher.saw(events)
        appender.ledger.check(events)
        assert not appender.ledger.refused | appender.ledger.unknown
        assert system_host().clock.elapsed() < session.deadline()
        assert await store.leader("registry") == leader


async def test_a_restarted_etcd_forgets_tokens_and_gives_others(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        store = etcd.store()
        await store.mesh()
        etcd.cluster.nodes[0].stop()
        etcd.cluster.restart(etcd.cluster.nodes[0])
        await etcd.cluster.serving()
        assert await store.incarnation() == 1


async def test_a_wrong_password_is_told_at_once_and_the_right_one_read(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        password_file(etcd.password, "wrong")
        store = etcd.store()
        with pytest.raises(StoreAccessDenied, match="does not accept the password of user braid") as raised:
            await within(store.incarnation(), 4.0)
        assert raised.value.problem == "password"
        assert str(etcd.password) in raised.value.remedy
        password_file(etcd.password, "first")
        assert await within(store.incarnation(), 4.0) == 1


async def test_a_certificate_may_name_the_user(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        assert await etcd.store(user="", name=USER).incarnation() == 1
        with pytest.raises(StoreAccessDenied, match="permission denied"):
            await etcd.store(user="", name="stranger").incarnation()


async def test_rights_that_are_taken_are_told_and_come_back(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        store = etcd.store()
        await store.incarnation()
        await forbid(etcd.operator)
        with pytest.raises(StoreAccessDenied, match="permission denied"):
            await within(store.load(LOGS), 4.0)
        with pytest.raises(StoreAccessDenied, match="permission denied"):
            await within(anext(aiter(store.watch("registry", 0))), 4.0)
        await allow(etcd.operator)
        assert (await store.load(LOGS)).sequence == 0


async def test_users_may_be_switched_on_beneath_a_running_store(tmp_path: Path) -> None:
    password = password_file(tmp_path / "password", "first")
    async with tls_cluster(tmp_path) as (cluster, authority), AsyncExitStack() as stack:
        operator = await stack.enter_async_context(connected(cluster.endpoints, cluster.credentials))
        store = Secured(cluster, authority, operator, password, stack).store()
        session = await store.open_session(_TTL_SECONDS)
        leader = await store.campaign(replica("a"), session)
        appender = Appender(store, LOGS, leader)
        async with Running(appender.run):
            await appender.acknowledged(more=10)
            await switch_users_on(operator, "first")
            await appender.acknowledged(more=10)
            await appender.stop()
        assert not appender.ledger.refused | appender.ledger.unknown
        assert system_host().clock.elapsed() < session.deadline()


async def test_a_store_that_names_nobody_is_told_to(tmp_path: Path) -> None:
    async with secured(tmp_path) as etcd:
        etcd.cluster.nodes[0].stop()
        etcd.cluster.nodes[0].tls = None
        etcd.cluster.restart(etcd.cluster.nodes[0])
        store = EtcdStore(etcd.cluster.endpoints, system_host())
        etcd.stack.push_async_callback(store.close)

        async def asks() -> None:
            while True:
                try:
                    await store.incarnation()
                except StoreAccessDenied as error:
                    assert error.problem == "user"
                    return
                except StoreUnavailable:
                    await asyncio.sleep(0.1)

        await within(asks(), 20.0)
