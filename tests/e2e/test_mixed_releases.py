"""Services, SDK and store of the last release are rolled forward and back under load: nothing is lost on the way."""

from pathlib import Path

import pytest

from tests.e2e.releases.play import Mixed, mixed
from tests.support.last_release import CHECKSUM, unpacked

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]


def test_the_last_release_is_the_one_whose_checksum_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    former = unpacked(tmp_path / "release")
    assert (former / "braid" / "_mesh" / "services" / "registry" / "__main__.py").exists()
    changed = tmp_path / "changed.sha256"
    changed.write_text(f"{'0' * 64}  {CHECKSUM.read_text().split()[1]}\n")
    monkeypatch.setattr("tests.support.last_release.CHECKSUM", changed)
    with pytest.raises(AssertionError, match="has the checksum"):
        unpacked(tmp_path / "again")


async def test_services_roll_forward_and_back_under_older_applications(tmp_path: Path) -> None:
    """The smallest mesh: one cluster, one replica of each service that decides."""
    async with mixed(tmp_path, "last", clusters=("east",), instances=("registry-0", "assigner-0")) as run:
        await run.roll_services("this")
        await run.roll_services("last")
        await check(run)


@pytest.mark.extended
async def test_a_mesh_is_rolled_forward_and_back_and_loses_nothing(tmp_path: Path) -> None:
    """Old applications with new services, then new with new; new applications with old services, then old with old."""
    async with mixed(tmp_path, "last") as run:
        await run.roll_services("this")
        await run.roll_applications("this")
        await run.roll_services("last")
        await run.roll_applications("last")
        await check(run)


async def check(run: Mixed) -> None:
    violations = await run.finish()
    print(*run.steps, dict(run.journals.counts), run.told_lost, sep="\n")
    assert violations == []
    assert "this" not in run.told_lost.values(), run.told_lost
    assert run.mesh.ended() == []
