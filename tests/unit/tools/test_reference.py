"""The reference pages: what they are made of is in them, and a change of it turns the check red."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from braid.cli import app
from tools import reference
from tools.reference_code import OWN_LIMITS
from tools.reference_text import cell, page, table

ROOT: Final = Path(__file__).resolve().parents[3]
_SOURCES: Final = (
    "docs/adr",
    "docs/glossary.md",
    "protos",
    "services",
    "braid/kernel/limits",
    "braid/runtime",
    *OWN_LIMITS,
)


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's sources with the pages they give."""
    root = tmp_path_factory.mktemp("checkout")
    for name in _SOURCES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name)
        else:
            shutil.copyfile(ROOT / name, root / name)
    reference.write(root)
    return root


def test_what_was_just_written_is_current(current: Path) -> None:
    assert reference.stale_pages(current) == []
    assert sorted(path.name for path in (current / reference.DIRECTORY).iterdir()) == sorted(reference.PAGES)


@pytest.mark.parametrize(
    ("source", "old", "new", "stale"),
    [
        ("protos/braid/api/lagmon/v1/lag.proto", "// A group's lag.", "// How far behind.", "grpc.md"),
        ("protos/braid/api/lagmon/v1/lag.proto", "string lane = 3;", "string lane = 3; string x = 99;", "grpc.md"),
        (
            "braid/kernel/limits/names.py",
            "PARTITIONS_MAX: Final = 10_000",
            "PARTITIONS_MAX: Final = 20_000",
            "limits.md",
        ),
        ("braid/kernel/limits/registry/health.py", "elections take less", "they take longer", "limits.md"),
        ("braid/kernel/limits/names.py", "beyond this one topic is the wrong shape", "too wide", "limits.md"),
        ("docs/reference/metrics.md", "braid_leader", "braid_leading", "metrics.md"),
        ("docs/reference/settings.md", "BRAID_STORE", "BRAID_SHOP", "settings.md"),
        ("docs/reference/cli.md", "braid doctor", "braid physician", "cli.md"),
        ("docs/reference/errors.md", "NOT_LEADER", "NO_LEADER", "errors.md"),
    ],
)
def test_a_change_makes_its_page_stale(current: Path, source: str, old: str, new: str, stale: str) -> None:
    text = (current / source).read_text()
    assert old in text
    (current / source).write_text(text.replace(old, new))
    try:
        assert reference.stale_pages(current) == [reference.DIRECTORY / stale]
    finally:
        (current / source).write_text(text)


def test_a_missing_page_is_stale(current: Path) -> None:
    path = current / reference.DIRECTORY / "limits.md"
    text = path.read_text()
    path.unlink()
    try:
        assert reference.stale_pages(current) == [reference.DIRECTORY / "limits.md"]
    finally:
        path.write_text(text)


def test_the_check_names_what_is_stale(
    current: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "ROOT", current)
    assert reference.main(["check"]) == 0
    monkeypatch.setitem(reference.PAGES, "errors.md", lambda root: "# Other errors")
    assert reference.main(["check"]) == 1
    assert "docs/reference/errors.md is not what its sources give now" in capsys.readouterr().err
    assert reference.main(["nonsense"]) == 2


def test_the_pages_have_what_they_are_about(current: Path) -> None:
    text = {name: (current / reference.DIRECTORY / name).read_text() for name in reference.PAGES}
    assert all(f"## braid {verb}\n" in text["cli.md"] for verb in app.VERBS)
    assert "| `--detail HOW` |" in text["cli.md"]
    assert "| `BRAID_STORE` | `str` | required |" in text["settings.md"]
    assert "| `BRAID_INDEX` | `Path` |  |" in text["settings.md"], "it is made where the service runs"
    assert "| 8 | `lag_records` | `int64` | End offsets minus what is done. |" in text["grpc.md"]
    assert "| `Join` | `stream JoinRequest` → `stream JoinResponse` |" in text["grpc.md"]
    assert "| 1 | `lanes` | `map<string, LaneSpec>` |" in text["grpc.md"]
    assert "| · · `NotLeader` | `NOT_LEADER` | `FAILED_PRECONDITION` | 4 |" in text["errors.md"]
    assert (
        "| `braid_append_conflicts_total` | counter | `{append}` | `kind` | Appends that came second |"
        in text["metrics.md"]
    )
    assert "| `DETACHED_SECONDS_MAX` | `(     900.0" not in text["limits.md"]


def test_cells_break_no_table() -> None:
    assert table(("A", "B"), [("x|y", "one\ntwo")]) == "| A | B |\n| --- | --- |\n| x\\|y | one two |\n"
    assert (table(("A",), []), cell(" a  b ")) == ("", "a b")
    assert page("Title", "Words.", ["", "## Part\n"]) == "# Title\n\nWords.\n\n## Part\n"
