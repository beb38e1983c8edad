"""The page's files: hashed ones are kept for ever, and every other address shows the page."""

import asyncio
import gzip
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


def ask(directory: Path, path: str, **headers: str) -> Answer:
    """The answer to a request for a file. Names of headers have `_` for `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(Browser(Guard(Page(directory), ())).get(path, sent))


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


def test_files_are_compressed_for_browsers_that_take_it(built: Path) -> None:
    plain, packed = ask(built, "/streams"), ask(built, "/streams", accept_encoding="br, gzip")
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert int(packed.headers["content-length"]) == len(packed.body)
    assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"
    assert packed.headers["content-type"] == plain.headers["content-type"]
    assert packed.headers["cache-control"] == "no-cache"


def test_a_changed_file_is_compressed_anew(built: Path) -> None:
    ask(built, "/", accept_encoding="gzip")
    (built / "index.html").write_text("<!doctype html>another")
    assert gzip.decompress(ask(built, "/", accept_encoding="gzip").body) == b"<!doctype html>another"


def test_a_browser_that_has_the_file_gets_no_body(built: Path) -> None:
    tag = ask(built, "/", accept_encoding="gzip").headers["etag"]
    again = ask(built, "/", accept_encoding="gzip", if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    assert tag != ask(built, "/").headers["etag"], "another form of the file has another tag"


@pytest.mark.parametrize("header", ["", "identity", "br", "gzip;q=0", "gzip; q=0.0, identity", "x-gzip2"])
def test_who_does_not_accept_gzip_gets_the_file_itself(built: Path, header: str) -> None:
    assert ask(built, "/assets/main-1a2b.js", accept_encoding=header).body == b"1"


def test_part_of_a_file_is_sent_as_it_is(built: Path) -> None:
    answer = ask(built, "/assets/main-1a2b.js", accept_encoding="gzip", range="bytes=0-0")
    assert (answer.status, answer.body) == (206, b"1")
