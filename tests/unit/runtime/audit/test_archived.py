"""Archived records of calls are verified with the histories of their replica; changed and removed objects are found."""

import asyncio
from collections.abc import Sequence

from braid.api.mesh.v1.archive_pb2 import VerifyArchiveRequest, VerifyArchiveResponse
from braid.archive.memory import MemoryArchive
from braid.kernel.limits.archive import ARCHIVE_VERIFY_HISTORIES
from braid.rpc.methods import method_path
from braid.runtime.audit.settings import AuditSettings
from tests.unit.runtime.access.mesh import ADMIN, ENFORCED, Mesh
from tests.unit.runtime.audit.test_audit import OPTIONS, WRITTEN_SECONDS, delete, run

REGISTRYS = "audit/changes/registry.registry-0"
DELETES = 300


async def verified(mesh: Mesh, service: str, history: str = "") -> list[VerifyArchiveResponse]:
    """All pages of what a replica says of its archive."""
    request, pages = VerifyArchiveRequest(history=history), list[VerifyArchiveResponse]()
    channel = mesh.client(service, ADMIN).channel
    while not pages or request.page_token:
        page = await channel.unary(method_path(service, "VerifyArchive"), request, VerifyArchiveResponse, OPTIONS)
        assert isinstance(page, VerifyArchiveResponse)
        pages.append(page)
        request.page_token = page.next_page_token
    return pages


def problems(pages: Sequence[VerifyArchiveResponse]) -> set[str]:
    return {f"{gap.history}: {gap.reason}" for page in pages for gap in page.problems}


async def grown(archive: MemoryArchive) -> Mesh:
    """A registry that has archived records of its calls; and a dlq, over the same objects."""
    mesh = await Mesh("dlq", audit=AuditSettings(records=100), archive=archive).start()
    client = mesh.client("registry", ADMIN)
    for number in range(DELETES):
        await delete(client, f"s-{number}")
        await asyncio.sleep(0.05)
    await asyncio.sleep(WRITTEN_SECONDS)
    return mesh


def test_a_replicas_call_records_are_verified_with_its_histories() -> None:
    async def scenario() -> None:
        archive = MemoryArchive()
        mesh = await grown(archive)
        segments = sorted(name for name in archive.objects if name.startswith("audit/") and name.endswith(".seg"))
        whole = await verified(mesh, "registry")
        assert problems(whole) == set()
        assert sum(page.events for page in whole) > DELETES / 2
        assert sum(page.events for page in await verified(mesh, "dlq")) == 0, "another replica's are not its own"
        sound = archive.objects[segments[0]]
        archive.objects[segments[0]] = sound[:-40] + bytes([sound[-40] ^ 1]) + sound[-39:]
        for history in ("", "audit", REGISTRYS):
            [found] = problems(await verified(mesh, "registry", history))
            assert found.startswith(f"{REGISTRYS}: ") and "is damaged at event" in found
        assert problems(await verified(mesh, "registry", "grants")) == set()
        del archive.objects[segments[0]]
        mesh.processes["registry"].kill()
        mesh.network.kill("registry-0")
        await mesh.begin("registry", ENFORCED).ready()
        assert problems(await verified(mesh, "registry")) == {f"{REGISTRYS}: the archive does not reach back so far"}

    run(scenario())


def test_a_bucket_is_verified_for_all_replicas_of_a_service() -> None:
    """One that is there no more left its records in the bucket: nobody else would look at them."""

    async def scenario() -> None:
        archive = MemoryArchive(shared=True)
        mesh = await grown(archive)
        mesh.processes["registry"].kill()
        mesh.network.kill("registry-0")
        await mesh.begin("registry", ENFORCED, 1).ready()
        assert sum(page.events for page in await verified(mesh, "registry")) > DELETES / 2
        assert sum(page.events for page in await verified(mesh, "dlq")) == 0

    run(scenario())


def test_what_does_not_fit_a_page_follows_on_the_next() -> None:
    async def scenario() -> None:
        mesh = await grown(MemoryArchive())
        own = len(mesh.replicas["registry"].aggregates.histories(""))
        assert own < ARCHIVE_VERIFY_HISTORIES
        pages = await verified(mesh, "registry")
        assert sum(page.histories for page in pages) == own + 1

    run(scenario())
