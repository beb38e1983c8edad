"""The protos: well formed, compatible with what was released, and generated. Each check turns red on a mutant."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tools.protos import PROTO_PATHS, RELEASED, generate, stale_files

ROOT: Final = Path(__file__).resolve().parents[2]
STREAM: Final = Path("protos/braid/api/registry/v1/stream.proto")


def buf(directory: Path, *arguments: str) -> tuple[int, str]:
    """Runs buf; its exit code and what it printed."""
    binary = Path(sys.executable).with_name("buf")
    answer = subprocess.run([binary, *arguments], cwd=directory, capture_output=True, text=True)
    return answer.returncode, answer.stdout + answer.stderr


def breaking(directory: Path) -> tuple[int, str]:
    """Compares a checkout's protos with the released image."""
    return buf(directory, "breaking", "--against", str(ROOT / RELEASED))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the checks read, free to mutate."""
    shutil.copyfile(ROOT / "buf.yaml", tmp_path / "buf.yaml")
    for path in PROTO_PATHS:
        shutil.copytree(ROOT / path, tmp_path / path)
    generate(tmp_path)
    return tmp_path


def mutate(file: Path, old: str, new: str) -> None:
    """Replaces the first occurrence of a text that must be there."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_protos_are_well_formed() -> None:
    assert buf(ROOT, "lint") == (0, "")


def test_lint_refuses_a_badly_named_field(checkout: Path) -> None:
    mutate(checkout / STREAM, "string name = 1;", "string theName = 1;")
    code, report = buf(checkout, "lint")
    assert code != 0
    assert "lower_snake_case" in report


def test_protos_are_compatible_with_what_was_released() -> None:
    assert breaking(ROOT) == (0, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("string name = 1;", "bytes name = 1;", id="type"),
        pytest.param("string name = 1;", "string name = 77;", id="number"),
        pytest.param("string name = 1;", "string title = 1;", id="name"),
        pytest.param("string name = 1;", "", id="removal"),
    ],
)
def test_breaking_refuses_a_changed_field(checkout: Path, old: str, new: str) -> None:
    mutate(checkout / STREAM, old, new)
    code, report = breaking(checkout)
    assert code != 0
    assert "stream.proto" in report


def test_an_added_field_is_compatible(checkout: Path) -> None:
    mutate(checkout / STREAM, "string name = 1;", "string name = 1;\n  string added = 1999;")
    assert breaking(checkout) == (0, "")


def test_generated_files_are_current() -> None:
    assert stale_files(ROOT) == []


def test_a_changed_proto_makes_its_module_stale_until_generated(checkout: Path) -> None:
    assert stale_files(checkout) == []
    mutate(checkout / STREAM, "string name = 1;", "string name = 1;\n  string added = 1999;")
    module = Path("braid/api/registry/v1/stream_pb2.py")
    assert stale_files(checkout) == [module, module.with_suffix(".pyi")]
    generate(checkout)
    assert stale_files(checkout) == []


def test_an_edited_or_orphaned_module_is_stale(checkout: Path) -> None:
    edited = Path("braid/api/registry/v1/stream_pb2.py")
    orphan = Path("braid/api/registry/v1/gone_pb2.py")
    (checkout / edited).write_text("\n")
    (checkout / orphan).write_text("\n")
    assert stale_files(checkout) == [orphan, edited]
    generate(checkout)
    assert not (checkout / orphan).exists()
