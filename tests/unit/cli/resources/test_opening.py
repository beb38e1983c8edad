"""`open`: the addresses of pages, and links that sign in."""

import json
from pathlib import Path

import pytest

from braid.cli import app
from braid.cli.resources.opening import page_path
from braid.host.console_links import read_link, write_key
from braid.kernel.errors import Invalid


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ("", "/"),
        ("stream/logs", "/streams/logs"),
        ("groups/indexer", "/groups/indexer"),
        ("deadletter/logs/1/0/17", "/dead-letters/logs%2F1%2F0%2F17"),
        ("events", "/events"),
    ],
)
def test_a_resource_has_its_page(page: str, path: str) -> None:
    assert page_path(page) == path


@pytest.mark.parametrize("page", ["steam/logs", "stream", "stream/"])
def test_what_has_no_page_is_refused_with_the_nearest(page: str) -> None:
    with pytest.raises(Invalid, match="stream"):
        page_path(page)


def test_a_link_signs_in_to_the_mesh_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ready.json").write_text(json.dumps({"console": "http://127.0.0.1:7480"}))
    key = write_key(tmp_path / "console")
    assert app.run(["open", "stream/logs", "--dir", str(tmp_path)]) == 0
    link, _, to = capsys.readouterr().out.strip().partition("?")
    assert to == "to=%2Fstreams%2Flogs"
    address, _, token = link.rpartition("/")
    assert address == "http://127.0.0.1:7480/sign-in"
    assert read_link(key, token) is not None


def test_a_console_elsewhere_is_opened_without_a_link(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["open", "events", "--console", "https://braid.example.com/"]) == 0
    assert capsys.readouterr().out == "https://braid.example.com/events\n"
    assert app.run(["open", "--console", "javascript:alert(1)"]) == 2


def test_a_mesh_without_a_console_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["open", "--dir", str(tmp_path)]) == 3
    assert "braid dev --detach" in capsys.readouterr().err
    (tmp_path / "ready.json").write_text(json.dumps({"console": ""}))
    assert app.run(["open", "--dir", str(tmp_path)]) == 3
    assert "without --no-console" in capsys.readouterr().err
