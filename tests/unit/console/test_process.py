"""The console's process: which mesh it reads, and with whose certificates."""

from pathlib import Path

import pytest

from braid.kernel.errors import Invalid
from console.server.config import ConsoleSettings
from console.server.process import mesh_of, public_url

MESH = {"BRAID_ENDPOINT": "registry-0:7401"}
CA = {"BRAID_TLS_CA": "/etc/ca.crt"}
FILES = {"BRAID_TLS_CERTIFICATE": "/etc/me.crt", "BRAID_TLS_KEY": "/etc/me.key"}
OIDC = {"oidc_issuer": "https://id.test", "oidc_client_id": "c"}


def settings(ways: str, **more: str) -> ConsoleSettings:
    """Settings of a console with some ways in."""
    return ConsoleSettings.model_validate({"home": "/d", "sign_in": ways, **(OIDC if "oidc" in ways else {}), **more})


@pytest.mark.parametrize("ways", ["token", "oidc", "token,oidc"])
def test_people_with_tokens_need_no_certificate_of_the_console(tmp_path: Path, ways: str) -> None:
    endpoint, ca = mesh_of(settings(ways), {**MESH, **CA}, tmp_path)
    assert (endpoint.addresses, endpoint.tls, ca) == (("registry-0:7401",), None, Path("/etc/ca.crt"))


def test_links_need_a_certificate_of_the_console(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="there is none") as refused:
        mesh_of(settings("link,oidc"), {**MESH, **CA}, tmp_path)
    assert "BRAID_TLS_CERTIFICATE" in refused.value.remedy
    endpoint, ca = mesh_of(settings("link"), {**MESH, **CA, **FILES}, tmp_path)
    assert endpoint.tls is not None and ca == Path("/etc/ca.crt")
    assert mesh_of(settings("link"), MESH, tmp_path)[1] is None


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        mesh_of(settings("token"), {**MESH, **CA, "BRAID_TLS_KEY": "/etc/me.key"}, tmp_path)


def test_browsers_reach_it_by_its_name() -> None:
    assert public_url(settings("link"), 7_480) == "http://127.0.0.1:7480"
    assert public_url(settings("link", listen="[::1]:0"), 9) == "http://[::1]:9"
    assert public_url(settings("link", url="https://braid.example"), 9) == "https://braid.example"
