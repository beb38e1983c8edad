"""The etcd store over mutual TLS: the contract, certificates and CAs that change under load, and refusals in words."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from braid.host.store_credentials import StoreCredentials
from braid.host.system import system_host
from braid.host.tls.connections import TlsConnections
from braid.host.tls.paths import Tls
from braid.kernel.errors import StoreAccessDenied, StoreUnavailable
from braid.stores.etcd import EtcdStore
from testbed.authority import ALICE, Authority, write_files
from testbed.etcd_process import START_SECONDS, EtcdCluster, etcd_cluster
from tests.contract.event_store.bodies import BODIES
from tests.contract.event_store.harness import Body, body_name, eventually, within
from tests.integration.etcd.harness import EtcdHarness
from tests.integration.etcd.rotation import rotating
from tests.integration.etcd.secured import client_files, tls_cluster

pytestmark = pytest.mark.untimed

# What connections can spoil: appends, a watch that goes on, sessions, leadership, a store that was replaced.
_OVER_TLS = {
    "appends_are_numbered_and_read_back",
    "an_interrupted_watch_resumes_without_gap_or_repeat",
    "closing_a_session_ends_what_hangs_on_it_at_once",
    "one_leads_at_a_time_and_each_gets_its_turn",
    "a_restore_raises_the_incarnation_and_ends_watches",
}


def bodies_over_tls() -> list[Body]:
    """Some bodies of the contract; the rest is the same on any connection."""
    found = [body for body in BODIES if body_name(body) in _OVER_TLS]
    assert len(found) == len(_OVER_TLS), "a body was renamed"
    return found


@pytest.mark.parametrize("body", bodies_over_tls(), ids=body_name)
async def test_etcd_keeps_the_contract_over_tls(body: Body, tmp_path: Path) -> None:
    async with tls_cluster(tmp_path) as (cluster, _), AsyncExitStack() as stack:
        await body(EtcdHarness(cluster, stack))


def opened(stack: AsyncExitStack, endpoints: list[str], tls: Tls | None) -> EtcdStore:
    """A store that shows these files."""
    store = EtcdStore(endpoints, system_host(), StoreCredentials(tls))
    stack.push_async_callback(store.close)
    return store


@asynccontextmanager
async def unserved(directory: Path, tls: Tls) -> AsyncIterator[list[str]]:
    """The endpoints of an etcd with a certificate that nobody here accepts."""
    cluster = EtcdCluster(directory, 1, tls)
    cluster.nodes[0].start(cluster.nodes)
    host, _, port = cluster.endpoints[0].rpartition(":")

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True

    try:
        await eventually(listens, START_SECONDS)
        yield cluster.endpoints
    finally:
        cluster.stop()


# --- rotation


async def play(directory: Path, cas: int, leaves: int) -> int:
    """Rotates so many CAs, and so many leaves after each; returns how often files changed.

    No call may fail, and each change must open a connection that shows it.
    """
    async with rotating(directory, members=1, cas=cas + 1, trusted=cas + 1) as rotation:
        async with rotation.loaded():
            for _ in range(cas):
                await rotation.rotate_ca()
                await rotation.rotate_leaves(leaves)
        print(rotation.figures())
        rotation.check_no_call_failed()
        await rotation.check_kept()
        assert rotation.connections >= rotation.rotations
        return rotation.rotations


async def test_rotations_of_leaf_and_ca_cost_no_call_and_no_session(tmp_path: Path) -> None:
    assert await play(tmp_path, cas=2, leaves=2) == 10


@pytest.mark.extended
async def test_a_hundred_rotations_cost_no_call_and_no_session(tmp_path: Path) -> None:
    assert await play(tmp_path, cas=10, leaves=7) == 100


async def test_a_store_that_keeps_its_connection_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TlsConnections, "outdated", lambda self, opened: False)
    with pytest.raises(AssertionError):
        await play(tmp_path, cas=1, leaves=1)


@pytest.mark.timeout(180)
async def test_members_restarted_for_a_ca_lose_no_event_or_session(tmp_path: Path) -> None:
    async with rotating(tmp_path, members=3, cas=2, trusted=1) as rotation:
        stale = rotation.files.stale_copy()
        async with rotation.loaded():
            await rotation.rotate_ca(restart=True)
        await rotation.check_kept()
        with pytest.raises(StoreAccessDenied):
            await rotation.opened(stale).incarnation()


# --- refusals in words


def distrusting(own: Authority, directory: Path) -> Tls:
    """A client that does not trust etcd."""
    return write_files(directory, *own.issue(uris=[ALICE]), Authority.make("Other CA").pem)


def untrusted(own: Authority, directory: Path) -> Tls:
    """A client that trusts etcd, which does not trust it."""
    return write_files(directory, *Authority.make("Other CA").issue(uris=[ALICE]), own.pem)


@pytest.mark.parametrize(
    ("make", "said", "remedy"),
    [
        (distrusting, "the server's certificate is not signed by an authority in .*ca.crt", "BRAID_STORE_TLS_CA"),
        (untrusted, "the server does not trust the authority that signed .*tls.crt", "--trusted-ca-file"),
    ],
)
async def test_whom_either_side_does_not_trust_is_told_at_once(
    make: Callable[[Authority, Path], Tls], said: str, remedy: str, tmp_path: Path
) -> None:
    async with tls_cluster(tmp_path) as (cluster, authority), AsyncExitStack() as stack:
        store = opened(stack, cluster.endpoints, make(authority, tmp_path / "client"))
        with pytest.raises(StoreAccessDenied, match=said) as raised:
            await within(store.incarnation(), 4.0)  # a read is tried for 5 s while nobody answers
        assert raised.value.problem == "connection"
        assert remedy in raised.value.remedy
        with pytest.raises(StoreAccessDenied, match=said):
            await within(store.open_session(2.0), 4.0)
        with pytest.raises(StoreAccessDenied, match=said):
            await within(anext(aiter(store.watch("registry", 0))), 4.0)


async def test_an_expired_certificate_is_told_at_once(tmp_path: Path) -> None:
    async with tls_cluster(tmp_path) as (cluster, authority), AsyncExitStack() as stack:
        files = authority.write(tmp_path / "client", uris=[ALICE], lifetime=timedelta(seconds=2))
        store = opened(stack, cluster.endpoints, files)
        await asyncio.sleep(2.5)
        with pytest.raises(StoreAccessDenied, match=r"the certificate .*client/tls.crt has expired"):
            await within(store.incarnation(), 4.0)


async def test_an_etcd_at_another_address_is_told_at_once(tmp_path: Path) -> None:
    authority = Authority.make()
    elsewhere = authority.write(tmp_path / "etcd", uris=[ALICE], dns=["elsewhere"])
    client = client_files(authority, tmp_path / "client")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(unserved(tmp_path, elsewhere))
        store = opened(stack, cluster, client)
        with pytest.raises(StoreAccessDenied, match=r"the server's certificate is not for 127\.0\.0\.1"):
            await within(store.incarnation(), 4.0)


async def test_plain_text_and_tls_that_meet_are_told(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    async with tls_cluster(tmp_path / "tls") as (secure, authority), AsyncExitStack() as stack:
        with pytest.raises(StoreAccessDenied, match="the server wants TLS: write etcd"):
            await opened(stack, secure.endpoints, None).incarnation()
        plain = await stack.enter_async_context(etcd_cluster(tmp_path / "plain"))
        with pytest.raises(StoreUnavailable, match="does it speak TLS"):
            await opened(stack, plain.endpoints, client_files(authority, tmp_path / "client")).incarnation()


async def test_a_member_with_a_wrong_certificate_is_left_for_others(tmp_path: Path) -> None:
    async with tls_cluster(tmp_path / "good") as (good, authority), AsyncExitStack() as stack:
        other = Authority.make("Other CA").service(tmp_path / "bad")
        bad = await stack.enter_async_context(unserved(tmp_path / "bad", other))
        files = client_files(authority, tmp_path / "client")
        store = opened(stack, [*bad, *good.endpoints], files)
        begun = time.monotonic()
        assert await store.incarnation() == 1
        assert time.monotonic() - begun < 4.0


async def test_a_certificate_that_is_replaced_lets_the_store_in_again(tmp_path: Path) -> None:
    async with tls_cluster(tmp_path) as (cluster, authority), AsyncExitStack() as stack:
        files = untrusted(authority, tmp_path / "client")
        store = opened(stack, cluster.endpoints, Tls(files.certificate, files.key, files.ca, 0.05))
        with pytest.raises(StoreAccessDenied):
            await store.incarnation()
        write_files(tmp_path / "client", *authority.issue(uris=[ALICE]), authority.pem)
        await asyncio.sleep(0.1)  # the files are looked at after so long
        assert await store.incarnation() == 1
