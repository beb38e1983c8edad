"""Controls: without the proof of emptiness, the mark, or the comparison, what they prevent happens."""

import pytest

from braid.kernel.errors import Refused
from services.registry.ownership import deletion
from services.registry.ownership.mark_log import MarkLogs
from services.registry.ownership.restoration import Restoration
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import STANDBY, Mesh, two_clusters
from tests.unit.registry.ownership.test_restored_store import SPARE, TOPIC, cordon, restored, topics
from tests.unit.registry.ownership.test_two_meshes import another_mesh, register


async def _compare_nothing(self: Restoration) -> None:
    """Decides at once."""


async def _never_written(*where: object) -> bool:
    """Takes every spare for empty."""
    return False


async def _anybodys(self: MarkLogs, *where: object) -> None:
    """Takes every cluster for one's own."""


def test_without_proof_a_restored_store_deletes_unread_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "was_written", _never_written)
    monkeypatch.setattr("services.registry.ownership.restoration.was_written", _never_written)

    async def scene() -> None:
        mesh = Mesh(session_seconds=3.0)
        await restored(mesh)
        await cordon(mesh, "west")
        await mesh.me.host.clock.sleep(60.0)
        assert TOPIC not in await topics(mesh, "west")

    run_virtual(scene())


def test_without_comparing_nobody_finds_records_since_the_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restoration, "compare_pending", _compare_nothing)

    async def scene() -> None:
        mesh = Mesh(session_seconds=3.0)
        await restored(mesh)
        await mesh.me.host.clock.sleep(60.0)
        assert (await mesh.channel(SPARE)).state == STANDBY

    run_virtual(scene())


@pytest.mark.parametrize("mutant", [False, True], ids=["sound", "mutant"])
def test_control_without_the_mark_a_former_owner_deletes_topics(monkeypatch: pytest.MonkeyPatch, mutant: bool) -> None:
    if mutant:
        monkeypatch.setattr(MarkLogs, "require_ours", _anybodys)

    async def scene() -> None:
        first = Mesh(session_seconds=3.0)
        await two_clusters(first)
        await first.until_channel(SPARE, lambda each: each.state == STANDBY, 5.0)
        second = await another_mesh(first)
        with pytest.raises(Refused):
            await register(second, "west")
        await register(second, "west", take_over=first.server.mesh())
        await cordon(first, "west")
        await first.me.host.clock.sleep(60.0)
        assert (TOPIC in await topics(first, "west")) is not mutant

    run_virtual(scene())
