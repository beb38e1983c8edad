"""Certificates and authorities are rotated under load: no call fails, and no lease moves."""

import asyncio
import json
import re
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.host.store_credentials import StoreCredentials
from braid.host.tls.paths import Tls
from braid.kernel.errors import BraidError
from testbed.authority import SERVICE, Authority, write_files
from testbed.etcd_process import etcd_cluster
from tests.support.assigner_machine import Machine

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(900)]

MEMBERS = ["web-0", "web-1"]
CALLERS = 4
LEASES = 12
ROTATIONS_MAX = 100


class Rotation:
    """The files of all processes, replaced as an operator or cert-manager does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authorities = [Authority.make(f"CA {number}") for number in range(ROTATIONS_MAX + 1)]
        self._key = generate_private_key(SECP256R1())  # etcd reads certificate and key one after the other
        self._leaf = self._issued()
        self.tls = self._write(self._authorities[0].pem)

    @property
    def etcd(self) -> Tls:
        """The certificate of etcd. It reads its CAs only at its start: all authorities there will be."""
        every = self._directory / "every-ca.crt"
        every.write_bytes(b"".join(each.pem for each in self._authorities))
        return Tls(self.tls.certificate, self.tls.key, every)

    def steps(self) -> list[bytes]:
        """One rotation: trust the next authority too, then show its certificate, then trust it alone."""
        old, new = self._authorities[:2]
        del self._authorities[0]
        return [old.pem + new.pem, old.pem + new.pem, new.pem]

    def take(self, step: int, ca: bytes) -> None:
        """Takes a step of `steps`."""
        if step == 1:
            self._leaf = self._issued()
        self._write(ca)

    def _issued(self) -> tuple[bytes, bytes]:
        return self._authorities[0].issue(uris=[SERVICE], ips=["127.0.0.1"], key=self._key)

    def _write(self, ca: bytes) -> Tls:
        return write_files(self._directory, *self._leaf, ca)


class Load:
    """Callers that ask all the time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.answers = 0
        self.failures: list[BraidError] = []
        self._tasks = [asyncio.create_task(self._call()) for _ in range(CALLERS)]

    async def _call(self) -> None:
        client = self._machine.client()
        while True:
            try:
                await client.unary("ListGroups", api.ListGroupsRequest(), api.ListGroupsResponse, timeout_seconds=20)
            except BraidError as error:
                self.failures.append(error)
            self.answers += 1
            await asyncio.sleep(0.005)

    async def more(self) -> None:
        """Waits until every caller was answered once more at least."""
        wanted = self.answers + 2 * CALLERS
        await self._machine.until(lambda: self.answers >= wanted)

    async def end(self) -> None:
        """Stops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def streams_ended(machine: Machine) -> int:
    """Join streams of members that the assigner has ended."""
    url = json.loads((machine.directory / "assigner-1.json").read_text())["metrics"]
    with urllib.request.urlopen(url) as answer:
        found = re.findall(r'braid_rpc_seconds_count\{.*method="Join".*\} ([0-9.]+)', answer.read().decode())
    return int(sum(map(float, found)))


@pytest.fixture
def rotation(tmp_path: Path) -> Rotation:
    """The first files."""
    return Rotation(tmp_path / "tls")


@pytest.fixture
async def store(request: pytest.FixtureRequest, tmp_path: Path, rotation: Rotation) -> AsyncIterator[str]:
    """The URL of the store that is asked for; '' for the machine's own."""
    if request.param == "sqlite":
        yield ""
        return
    (tmp_path / "etcd").mkdir()
    async with etcd_cluster(tmp_path / "etcd", 1, rotation.etcd, StoreCredentials(rotation.tls)) as cluster:
        yield f"etcd+tls://{cluster.endpoints[0]}"


@pytest.fixture
async def machine(tmp_path: Path, rotation: Rotation, store: str) -> AsyncIterator[Machine]:
    """An assigner and its registry over mutual TLS, whose connections end every two seconds."""
    tls = rotation.tls
    environment = {
        "BRAID_TLS_CERTIFICATE": str(tls.certificate),
        "BRAID_TLS_KEY": str(tls.key),
        "BRAID_TLS_CA": str(tls.ca),
        "BRAID_TLS_RELOAD_SECONDS": "0.001",
        "BRAID_TLS_CONNECTION_SECONDS": "2",
        **({"BRAID_STORE": store, "BRAID_SESSION_TTL_SECONDS": "20"} if store else {}),
    }
    made = Machine(tmp_path, environment)
    try:
        made.tell(("logs/live/1", LEASES, "STANDBY"))
        await made.service("registry-0", "testbed.members.told_registry")
        await made.service("assigner-1", "services.assigner")
        spec = group_pb2.GroupSpec(streams=["logs"], lease_ms=1_000, fencing=group_pb2.FENCING_NONE)
        request = api.CreateGroupRequest(name="indexer", spec=spec)
        await made.client().unary("CreateGroup", request, group_pb2.Group, timeout_seconds=20)
        made.tell(("logs/live/1", LEASES, "ACTIVE"))
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize(
    ("store", "rotations"),
    [
        ("sqlite", 10),
        pytest.param("sqlite", ROTATIONS_MAX, marks=pytest.mark.extended),
        pytest.param("etcd", ROTATIONS_MAX, marks=pytest.mark.extended),
    ],
    indirect=["store"],
)
async def test_rotations_under_load_fail_no_call_and_move_no_lease(
    rotations: int, machine: Machine, rotation: Rotation
) -> None:
    for name in MEMBERS:
        await machine.member(name)
    await machine.until(lambda: machine.balanced(MEMBERS, LEASES))
    held = {name: machine.log(name) for name in MEMBERS}
    load = Load(machine)
    for _ in range(rotations):
        for step, ca in enumerate(rotation.steps()):
            rotation.take(step, ca)
            await load.more()
    await machine.until(lambda: streams_ended(machine) >= len(MEMBERS))
    await load.more()
    await load.end()
    print(f"{rotations} rotations: {load.answers} calls, {len(load.failures)} failed")
    assert not load.failures
    assert {name: machine.log(name) for name in MEMBERS} == held
