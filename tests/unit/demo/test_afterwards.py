"""A demo that leaves its mesh running has a console, and prints a link that opens it."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from braid.host.console_links import KEY_FILE, LINK_SECONDS, read_link, write_key
from console.server.signing.links import Links, LinkVerdict
from demo.afterwards import ways_to_go_on
from demo.plan import Plan
from demo.traffic.shipper import STREAM
from devmesh.documents import Ready

NOW_MS = 1_800_000_000_000


def lines(directory: Path, console: str = "http://127.0.0.1:7480") -> dict[str, str]:
    """The printed lines, by their first words."""
    ready = Ready("127.0.0.1:7401", console, "sqlite", str(directory))
    return {
        name: text.strip() for name, _, text in (each.partition(":") for each in ways_to_go_on(ready, "braid", NOW_MS))
    }


def test_the_printed_link_signs_in_once_and_leads_to_the_stream(tmp_path: Path) -> None:
    key = write_key(tmp_path / "console")
    link = urlsplit(lines(tmp_path)["see it"])
    assert (link.scheme, link.netloc) == ("http", "127.0.0.1:7480")
    assert parse_qs(link.query) == {"to": [f"/streams/{STREAM}"]}
    token = link.path.removeprefix("/sign-in/")
    found = read_link(key, token)
    assert found is not None and NOW_MS < found.expire_ms < NOW_MS + LINK_SECONDS * 1_000
    links = Links(key)
    assert links.use(token, NOW_MS + 1_000) is LinkVerdict.GOOD
    assert links.use(token, NOW_MS + 1_000) is LinkVerdict.USED


def test_a_key_that_cannot_be_read_leaves_the_address(tmp_path: Path) -> None:
    assert lines(tmp_path)["see it"] == "http://127.0.0.1:7480"
    write_key(tmp_path / "console")
    (tmp_path / "console" / KEY_FILE).chmod(0o644)
    found = lines(tmp_path)
    assert found["see it"] == "http://127.0.0.1:7480"
    assert found["later"] == f"braid open stream/{STREAM} --dir {tmp_path}"


def test_a_mesh_without_a_console_names_none(tmp_path: Path) -> None:
    assert list(lines(tmp_path, "")) == ["look around", "end it"]


def test_only_a_demo_that_stays_starts_a_console(tmp_path: Path) -> None:
    assert Plan(tmp_path, 1, 1, keep=True).console_port == 0
    assert Plan(tmp_path, 1, 1, keep=False).console_port is None
