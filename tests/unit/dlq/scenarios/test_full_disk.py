"""The disk of the index is full: nothing is indexed, callers are told why, and nothing is left out afterwards."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from services.dlq.index.letter_index import LetterIndex
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No index takes anything."""
    changing = LetterIndex.changing

    @contextmanager
    def full(index: LetterIndex) -> Iterator[sqlite3.Cursor]:
        with changing(index) as cursor:
            yield cursor
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(LetterIndex, "changing", full)
        yield


def test_letters_from_a_full_disk_are_indexed_and_replayed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(2)
        await mesh.indexed(2)
        said = list[str]()

        async def refused() -> bool:
            try:
                await mesh.replay(filter="group=nobody")
            except Unavailable as error:
                said[:] = [str(error)]
            return bool(said)

        with full_disk(monkeypatch):
            await mesh.park(3, first=10)
            await mesh.until(refused)
            assert (await mesh.letters()).catching_up == ["east"]
        assert "are still being indexed: the disk of the index" in said[0]
        await mesh.indexed(5)
        assert (await over(mesh, (await mesh.replay()).id)).status.matched == 5
        assert set(mesh.replayed().values()) == {1}

    play(tmp_path, scene)
