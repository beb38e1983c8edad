"""The contract of `ArchiveStore`, over every adapter; and what only files can suffer."""

import asyncio
from pathlib import Path

import pytest

from braid.kernel.errors import BraidError, NotFound, Unavailable
from braid.kernel.ports import ArchiveStore
from tests.contract.archive.conftest import MESH, directory_archive

NAME = "assigner/group/indexer/00000000000000000512_1_0123456789abcdef_i1.base"
OTHER = "assigner/group/other/00000000000000000512_1_0123456789abcdef_i1.base"


async def listed(archive: ArchiveStore, prefix: str) -> list[tuple[str, int]]:
    """Names and sizes."""
    return [(each.name, each.size_bytes) for each in await archive.list(prefix)]


async def test_what_is_put_is_found_until_it_is_deleted(archive: ArchiveStore) -> None:
    assert await listed(archive, "") == []
    assert await listed(archive, "assigner/") == []
    await archive.put(NAME, b"abc")
    await archive.put(OTHER, b"")
    assert await archive.get(NAME) == b"abc"
    assert await archive.get(OTHER) == b""
    assert await listed(archive, "assigner/group/indexer/") == [(NAME, 3)]
    assert await listed(archive, "assigner/") == [(NAME, 3), (OTHER, 0)]
    assert await listed(archive, "registry/") == []
    await archive.delete(NAME)
    await archive.delete(NAME)
    with pytest.raises(NotFound):
        await archive.get(NAME)
    assert await listed(archive, "") == [(OTHER, 0)]


async def test_the_same_name_again_replaces_it(archive: ArchiveStore) -> None:
    await archive.put(NAME, b"first")
    await archive.put(NAME, b"2nd")
    assert await archive.get(NAME) == b"2nd"
    assert await listed(archive, "") == [(NAME, 3)]


async def test_large_objects_and_many_at_once(archive: ArchiveStore) -> None:
    some, large = bytes(range(256)) * 16, bytes(range(256)) * (9 << 12)
    objects = {f"assigner/group/g{number}/x": some + bytes([number]) for number in range(20)}
    objects["assigner/group/large/x"], objects["assigner/group/larger/x"] = large, large + large
    await asyncio.gather(*(archive.put(name, data) for name, data in objects.items()))
    found = await asyncio.gather(*map(archive.get, objects))
    assert found == list(objects.values())
    await asyncio.gather(*(archive.put(NAME, b"same") for _ in range(8)))
    assert await archive.get(NAME) == b"same"


async def test_names_lead_nowhere_else(archive: ArchiveStore) -> None:
    with pytest.raises(BraidError):
        await archive.get("assigner/../../etc/passwd")
    assert await listed(archive, "assigner/nothing/") == []


async def test_a_part_that_a_crash_left_is_no_object(tmp_path: Path) -> None:
    archive = directory_archive(tmp_path)
    await archive.put(NAME, b"whole")
    left = (tmp_path / NAME).with_name(".00000000000000000512.0.part")
    left.write_bytes(b"tor")
    again = directory_archive(tmp_path)
    assert await listed(again, "") == [(NAME, 5)]
    assert not left.exists()


async def test_an_unwritable_directory_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    archive = directory_archive(tmp_path / "file")
    with pytest.raises(Unavailable, match="file cannot be used"):
        await archive.put(NAME, b"x")


async def test_a_full_disk_leaves_no_part_behind(tmp_path: Path) -> None:
    archive = directory_archive(tmp_path)
    await archive.put(NAME, b"before")
    target = (tmp_path / OTHER).parent
    target.mkdir()
    (target / f".{Path(OTHER).name}.2.part").symlink_to("/dev/full")  # where the next part is written
    with pytest.raises(Unavailable, match="No space left"):
        await archive.put(OTHER, b"x" * 100_000)
    assert await listed(archive, "") == [(NAME, 6)]


async def test_another_meshs_directory_is_always_refused_by_name(tmp_path: Path) -> None:
    own, other = directory_archive(tmp_path), directory_archive(tmp_path, "01OTHER")
    assert await listed(other, "") == [], "nobody's yet"
    await own.put(NAME, b"x")
    for call in (other.put(OTHER, b"y"), other.get(NAME), other.list(""), other.delete(NAME)):
        with pytest.raises(
            Unavailable, match=rf"{tmp_path} is that of mesh '{MESH}', and this is mesh 01OTHER"
        ) as told:
            await call
        assert "BRAID_ARCHIVE" in told.value.remedy
    assert await listed(own, "") == [(NAME, 1)]
    again = directory_archive(tmp_path)
    assert await again.get(NAME) == b"x"


async def test_a_directory_older_than_mesh_ids_joins_the_first_mesh(tmp_path: Path) -> None:
    old = directory_archive(tmp_path)
    await old.put(NAME, b"x")
    (tmp_path / ".mesh").unlink()
    again = directory_archive(tmp_path)
    assert await again.get(NAME) == b"x"
    await again.put(OTHER, b"y")
    assert (tmp_path / ".mesh").read_text() == MESH
