"""The page of the console: which change is noticed, and how large its first visit may be."""

import json
from pathlib import Path

import pytest

from tools import console_page
from tools.console_page import FIRST_LOAD_BYTES_MAX, PAGE, RECORD, ROOT, SOURCES, STATIC


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose built files are recorded."""
    (tmp_path / PAGE / "src").mkdir(parents=True)
    (tmp_path / STATIC / "assets").mkdir(parents=True)
    (tmp_path / PAGE / "src" / "main.tsx").write_text("1")
    (tmp_path / STATIC / "index.html").write_text("<html>")
    (tmp_path / STATIC / "assets" / "a.js").write_text("1")
    record = {
        "sources": console_page.digest(console_page.hashes(tmp_path / PAGE, SOURCES)),
        "files": console_page.built_hashes(tmp_path / STATIC),
    }
    (tmp_path / RECORD).write_text(json.dumps(record))
    return tmp_path


def test_the_recorded_build_has_no_fault(checkout: Path) -> None:
    """Nothing is said of a checkout that is as it was built."""
    assert list(console_page.faults(checkout)) == []


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("console/page/src/main.tsx", "console/page was changed"),
        ("console/page/src/new.tsx", "console/page was changed"),
        ("console/page/package-lock.json", "console/page was changed"),
        ("console/static/assets/a.js", "assets/a.js is not what was built"),
        ("console/static/extra.js", "extra.js is not what was built"),
    ],
)
def test_a_change_without_a_build_is_found(checkout: Path, file: str, fault: str) -> None:
    """A changed or added source, and a built file changed by hand, are each named."""
    (checkout / file).write_text("2")
    assert fault in "; ".join(console_page.faults(checkout))


def test_a_removed_built_file_is_found(checkout: Path) -> None:
    """The wheel must not lack what the page loads."""
    (checkout / STATIC / "assets" / "a.js").unlink()
    assert "assets/a.js is not what was built" in "; ".join(console_page.faults(checkout))


def test_tests_of_the_page_need_no_new_build(checkout: Path) -> None:
    """Only what goes into the built files counts."""
    (checkout / PAGE / "tests").mkdir()
    (checkout / PAGE / "tests" / "a.test.ts").write_text("1")
    assert list(console_page.faults(checkout)) == []


def test_a_first_visit_stays_small() -> None:
    """Everything that any page loads, compressed; most visits load less."""
    sizes = console_page.first_load(ROOT / STATIC)
    assert len(sizes) >= 5
    assert sum(sizes.values()) <= FIRST_LOAD_BYTES_MAX


def test_the_page_holds_no_inline_script_or_style() -> None:
    """The policy on content allows neither, and no host but its own."""
    page = (ROOT / STATIC / "index.html").read_text(encoding="utf-8")
    assert "<style" not in page and "style=" not in page and "http" not in page
    assert page.count("<script") == page.count('<script type="module" crossorigin src="/assets/')


def test_licences_of_bundled_packages_are_shipped() -> None:
    """Their licences ask that their texts go with every copy."""
    text = (ROOT / STATIC / "licences.txt").read_text(encoding="utf-8")
    wanted = json.loads((ROOT / PAGE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert all(f"{name} {version}\n" in text for name, version in wanted.items())
