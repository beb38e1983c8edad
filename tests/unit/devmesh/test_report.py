"""The page at the end of a start: how to address the mesh and end it, and that its port is not the usual one."""

from pathlib import Path

import pytest

from devmesh.config import MeshLayout
from devmesh.documents import Ready
from devmesh.files import MeshFiles
from devmesh.report import port_warning, ready_page, warnings_of


def page(endpoint: str = "127.0.0.1:7401", directory: str = "/d/.braid", *warnings: str, **how: bool) -> str:
    """The page of a mesh without processes."""
    return ready_page(Ready(endpoint, "", "sqlite", directory), MeshFiles(Path(directory)), warnings, **how)


def test_ctrl_c_is_named_in_the_foreground_alone() -> None:
    assert "  end it:     Ctrl-C, or braid dev down --dir /d/.braid" in page(foreground=True).splitlines()
    assert "  end it:     braid dev down --dir /d/.braid" in page(foreground=False).splitlines()


def test_a_mesh_is_addressed_by_directory_or_environment() -> None:
    found = "  use it:     in /d, commands and braid.connect() find it; elsewhere: export BRAID_ENDPOINT=127.0.0.1:7407"
    assert found in page("127.0.0.1:7407").splitlines()
    elsewhere = page("127.0.0.1:7407", "/d/mesh")
    assert "  use it:     export BRAID_ENDPOINT=127.0.0.1:7407" in elsewhere.splitlines()
    assert "find it" not in elsewhere


def test_a_secure_mesh_names_its_certificates() -> None:
    paths = {"ca": "/d/ca.pem", "certificate": "/d/certificate.pem", "key": "/d/key.pem"}
    ready = Ready("127.0.0.1:7401", "", "sqlite", "/d/mesh", tls=paths)
    shown = ready_page(ready, MeshFiles(Path("/d/mesh"))).splitlines()
    assert "  tls         mutual, by a CA of this mesh: braid certs show --dir /d/mesh/tls" in shown
    use = next(line for line in shown if line.startswith("  use it:"))
    variables = "BRAID_TLS_CA=/d/ca.pem BRAID_TLS_CERTIFICATE=/d/certificate.pem BRAID_TLS_KEY=/d/key.pem"
    assert use.endswith(f"export BRAID_ENDPOINT=127.0.0.1:7401 {variables}")
    assert "  tls " not in page()


@pytest.mark.parametrize(
    ("asked", "remembered", "got", "warning"),
    [
        (0, None, 7401, ""),
        (7500, None, 7500, ""),
        (0, 7401, 7401, ""),
        (0, None, 7403, "port 7401 is taken by another program: the endpoint of this mesh is 127.0.0.1:7403"),
        (0, 7405, 7402, "port 7405 is taken by another program: the endpoint of this mesh is 127.0.0.1:7402"),
        (0, 7402, 7402, "the endpoint of this mesh is 127.0.0.1:7402, as in its last run, not 127.0.0.1:7401"),
        (0, 7405, 7401, "port 7405 is taken by another program: the endpoint of this mesh is 127.0.0.1:7401"),
    ],
)
def test_another_port_than_the_usual_one_is_warned_of(
    asked: int, remembered: int | None, got: int, warning: str
) -> None:
    assert port_warning(asked, remembered, got) == warning


def test_warnings_are_the_first_thing_on_the_page() -> None:
    told = page("127.0.0.1:7403", "/d/.braid", "port 7401 is taken", "plain text").splitlines()
    assert told[:5] == [
        "",
        "  WARNING     port 7401 is taken",
        "  WARNING     plain text",
        "",
        "  endpoint    127.0.0.1:7403",
    ]


@pytest.mark.parametrize(
    ("secure", "was_plain", "said"),
    [
        (True, False, []),
        (True, True, ["this mesh spoke plain text before and is secure now"]),
        (False, False, ["plain text, as asked: every user and program of this machine may call everything"]),
        (False, True, ["plain text, as asked: every user and program of this machine may call everything"]),
    ],
)
def test_plain_text_is_warned_of_and_so_is_its_end(secure: bool, was_plain: bool, said: list[str]) -> None:
    layout = MeshLayout("sqlite", {}, ("registry-0",), False, secure=secure, was_plain=was_plain)
    found = warnings_of(layout, 0, {}, {"registry-0": 7401})
    assert [each[: len(start)] for each, start in zip(found, said, strict=True)] == said


def test_a_port_is_warned_of_beside_plain_text() -> None:
    layout = MeshLayout("sqlite", {}, ("registry-0",), False)
    port, plain = warnings_of(layout, 0, {}, {"registry-0": 7409})
    assert (port.startswith("port 7401 is taken"), plain.startswith("plain text")) == (True, True)
