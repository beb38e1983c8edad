"""The lock keeps a second mesh out, what is remembered comes back or is refused, files appear whole."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from braid.kernel.errors import Refused
from devmesh.config import Remembered
from devmesh.files import DirectoryLock, MeshFiles, write_whole

_HOLD = """
import sys, time
from pathlib import Path
from devmesh.files import DirectoryLock, MeshFiles
lock = DirectoryLock(MeshFiles(Path(sys.argv[1])))
lock.take()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_mesh_is_refused_naming_the_first(tmp_path: Path) -> None:
    files = MeshFiles(tmp_path)
    first, second = DirectoryLock(files), DirectoryLock(files)
    assert second.holder() is None
    first.take()
    assert second.holder() == os.getpid()
    with pytest.raises(Refused, match=f"process {os.getpid()}"):
        second.take()
    first.release()
    assert second.holder() is None
    second.take()
    second.release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    lock = DirectoryLock(MeshFiles(tmp_path))
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert lock.holder() == holder.pid
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert lock.holder() is None


def test_a_mesh_remembers_that_it_is_secure(tmp_path: Path) -> None:
    files = MeshFiles(tmp_path)
    files.remember(Remembered("sqlite", secure=True))
    assert files.recall().secure
    files.remember(Remembered("sqlite"))
    assert not files.recall().secure


def test_a_mesh_of_single_brokers_is_remembered_as_ever(tmp_path: Path) -> None:
    files = MeshFiles(tmp_path)
    files.remember(Remembered("sqlite", {"east": "a"}, {"east": 1}, {"east": 1}))
    document = json.loads((tmp_path / "mesh.json").read_text())
    assert document == {"format": 1, "store": "sqlite", "zones": {"east": "a"}, "ports": {"east": 1}}


def test_several_brokers_need_a_format_that_old_releases_refuse(tmp_path: Path) -> None:
    files = MeshFiles(tmp_path)
    kept = Remembered("sqlite", {"east": "a", "west": "b"}, {"east/1": 1}, {"east": 3, "west": 1})
    files.remember(kept)
    assert files.recall() == kept
    assert json.loads((tmp_path / "mesh.json").read_text())["format"] == 2


def test_what_is_remembered_comes_back(tmp_path: Path) -> None:
    files = MeshFiles(tmp_path)
    assert files.recall() == Remembered()
    kept = Remembered("sqlite", {"east": "a"}, {"east": 19192, "east/controller": 19193})
    files.remember(kept)
    assert files.recall() == kept


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "store": "x", "zones": 3, "ports": {}}']
)
def test_a_damaged_memory_is_refused_naming_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "mesh.json").write_text(text)
    with pytest.raises(Refused, match=r"mesh\.json cannot be understood"):
        MeshFiles(tmp_path).recall()


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="choose another --dir"):
        MeshFiles(tmp_path / "file" / "mesh").prepare()


def test_the_socket_of_a_deep_directory_is_short_and_its_own(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    here, there = MeshFiles(deep / "one").socket, MeshFiles(deep / "two").socket
    assert here.parent == there.parent == Path(tempfile.gettempdir())
    assert here != there
    assert MeshFiles(Path("/short")).socket == Path("/short/control")


def test_a_file_is_replaced_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_whole(path, "first, and longer")
    write_whole(path, "second")
    assert path.read_text() == "second"
    assert [each.name for each in path.parent.iterdir()] == ["file"]
