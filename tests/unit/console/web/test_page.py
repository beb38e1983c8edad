"""The page's files: hashed ones are kept for ever, and every other address shows the page."""

import asyncio
from pathlib import Path

import pytest

from console.server.web.guard import Guard
from console.server.web.page import Page
from tests.support.browser import Answer, Browser


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A page as it is built, and a secret beside it."""
    (tmp_path / "static" / "assets").mkdir(parents=True)
    (tmp_path / "static" / "index.html").write_text("<!doctype html>page")
    (tmp_path / "static" / "assets" / "main-1a2b.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "static"


def ask(directory: Path, path: str) -> Answer:
    """The answer to a request for a file."""
    return asyncio.run(Browser(Guard(Page(directory), ())).get(path))


@pytest.mark.parametrize("path", ["/", "/index.html", "/streams/logs", "/alerts/stream%2Fa"])
def test_every_address_shows_the_page(built: Path, path: str) -> None:
    answer = ask(built, path)
    assert (answer.status, answer.body) == (200, b"<!doctype html>page")
    assert answer.headers["cache-control"] == "no-cache"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_hashed_files_are_kept_for_ever(built: Path) -> None:
    answer = ask(built, "/assets/main-1a2b.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert ask(built, "/assets/main-old.js").status == 404


@pytest.mark.parametrize("path", ["/../secret", "/assets/../../secret", "/..\\secret", "//etc/passwd"])
def test_no_file_outside_is_shown(built: Path, path: str) -> None:
    assert ask(built, path).body != b"secret"
    assert b"root:" not in ask(built, path).body


def test_a_page_that_is_not_built_says_so(tmp_path: Path) -> None:
    answer = ask(tmp_path / "nothing", "/streams")
    assert answer.status == 200 and b"not built" in answer.body
