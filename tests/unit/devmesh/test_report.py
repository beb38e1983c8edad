"""The page at the end of a start: how to address the mesh and end it, and that its port is not the usual one."""

from pathlib import Path

import pytest

from devmesh.documents import Ready
from devmesh.files import MeshFiles
from devmesh.report import port_warning, ready_page


def page(endpoint: str = "127.0.0.1:7401", directory: str = "/d/.braid", warning: str = "", **how: bool) -> str:
    """The page of a mesh without processes."""
    return ready_page(Ready(endpoint, "", "sqlite", directory), MeshFiles(Path(directory)), warning, **how)


def test_ctrl_c_is_named_in_the_foreground_alone() -> None:
    assert "  end it:     Ctrl-C, or braid dev down --dir /d/.braid" in page(foreground=True).splitlines()
    assert "  end it:     braid dev down --dir /d/.braid" in page(foreground=False).splitlines()


def test_a_mesh_is_addressed_by_its_directory_or_by_the_environment() -> None:
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


def test_the_warning_is_the_first_thing_on_the_page() -> None:
    told = page("127.0.0.1:7403", warning="port 7401 is taken").splitlines()
    assert told[:4] == ["", "  WARNING     port 7401 is taken", "", "  endpoint    127.0.0.1:7403"]
