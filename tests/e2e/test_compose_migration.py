"""A composed mesh that ran in plain text moves over to certificates and rights, by the commands of the guide."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kernel.errors import AccessDenied, Unavailable
from tests.support.compose import ENDPOINT, HANG_SECONDS, INSECURE, MEMBERS, Played, read_compose
from tests.support.planted import planted_record

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(900)]

RECORDS: Final = [planted_record(f"{number:02}") for number in range(10)]
BACKUP: Final = "/var/lib/braid/store.backup"


class Moved:
    """One directory of volumes, and the mesh that runs on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.mesh = self._played(insecure=True)

    def secure(self) -> None:
        """The file alone describes what runs from now on."""
        self.mesh = self._played(insecure=False)

    def _played(self, *, insecure: bool) -> Played:
        found = read_compose(override=INSECURE if insecure else None)
        services = {name: each for name, each in found.items() if not each.profiles}
        return Played(services, self._directory, getattr(self, "mesh", None))

    def connected(self, holder: str = "") -> braid.Mesh:
        """The SDK, with a holder's certificate or none."""
        if not holder:
            return braid.connect(self.mesh.here(ENDPOINT))
        names = ("certificate.pem", "key.pem", "ca.pem")
        certificate, key, ca = (self.mesh.file("tls", f"{holder}/{name}") for name in names)
        return braid.connect(self.mesh.here(ENDPOINT), tls=braid.Tls(certificate, key, ca))


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Moved]:
    """A composed mesh in plain text that serves."""
    made = Moved(tmp_path)
    try:
        made.mesh.start_all()
        yield made
    finally:
        made.mesh.end()


async def fill(client: braid.Mesh) -> None:
    """Makes a stream, and sends the records."""
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=1)}, replication_factor=1)
    request = CreateStreamRequest(name="kept", spec=spec)
    await client.service("registry").unary("CreateStream", request, Stream, timeout_seconds=120.0)
    async with client.producer("kept") as producer:
        for value in RECORDS:
            await producer.send(value, lane="live")


async def take(client: braid.Mesh, count: int) -> list[bytes]:
    """Takes and acknowledges so many records."""
    found: list[bytes] = []
    async with asyncio.timeout(HANG_SECONDS), client.consumer(["kept"], group="reader") as consumer:
        async for record in consumer:
            found.append(record.value or b"")
            record.ack()
            if len(found) == count:
                break
    return found


@pytest.mark.extended
async def test_streams_and_progress_outlive_the_move_to_certificates(moved: Moved) -> None:
    async with moved.connected() as client:
        await fill(client)
        assert await take(client, 4) == RECORDS[:4]
    await asyncio.to_thread(move, moved)
    async with moved.connected("me") as client:
        assert await take(client, 6) == RECORDS[4:]
    with pytest.raises(Unavailable, match="the server wants mutual TLS"):
        async with moved.connected():
            pytest.fail("somebody without a certificate was let in")
    async with moved.connected("event-store") as client:
        with pytest.raises(AccessDenied):
            await fill(client)


def move(moved: Moved) -> None:
    """Runs the commands of the guide, one by one."""
    moved.mesh.run_in("registry-0", "braid", "store", "backup", BACKUP)
    moved.mesh.end()
    for name in MEMBERS:
        moved.mesh.forget(name)
    moved.secure()
    assert moved.mesh.run("certs", HANG_SECONDS) == 0, moved.mesh.log("certs")
    for name in MEMBERS:
        moved.mesh.start(name)
    for name in MEMBERS:
        moved.mesh.wait_healthy(name)
    moved.mesh.run_in("registry-0", "braid", "store", "restore", BACKUP, "--yes")
    moved.mesh.start_all()


def test_the_guide_has_the_commands_that_were_played() -> None:
    guide = (INSECURE.parent / "docs" / "guides" / "deploying.md").read_text()
    for command in (f"braid store backup {BACKUP}", f"braid store restore {BACKUP} --yes"):
        assert command in guide
    assert "docker volume rm " + " ".join(f"braid_{name}" for name in MEMBERS) in guide
