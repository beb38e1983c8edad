"""Certificates of a secure mesh: everybody gets one, they fit together, and they outlive restarts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from braid.certs.authority import Authority
from braid.certs.identity import Identity
from braid.host.tls.files import read_tls
from devmesh.credentials import HERE, MeshCredentials, paths_of, prepared, user_identity
from devmesh.limits import DEV_RENEWAL_SECONDS
from tests.support.tls_handshake import handshake


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeshCredentials:
    monkeypatch.setenv("LOGNAME", "Anna K")
    found = prepared(True, tmp_path / "tls", ("registry-0", "dlq-0"))
    assert found is not None
    return found


def test_replicas_user_and_mesh_accept_one_another(made: MeshCredentials) -> None:
    registry = made.service("registry-0")
    for client, uri in (
        (made.user, "spiffe://braid.local/user/anna-k"),
        (made.supervisor, "spiffe://braid.local/app/braid-dev"),
        (made.service("dlq-0"), "spiffe://braid.local/service/dlq-0"),
    ):
        seen, _ = handshake(registry.certificate.parent, client.certificate.parent, host="127.0.0.1")
        assert seen == [uri]
        read_tls(client)


def test_the_user_and_the_mesh_itself_are_its_admins(made: MeshCredentials) -> None:
    assert made.admins == ("spiffe://braid.local/user/anna-k", "spiffe://braid.local/app/braid-dev")


def test_admins_are_of_the_trust_domain_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    Authority.create(tmp_path / "tls", "mesh.example.com", datetime.now(UTC))
    found = prepared(True, tmp_path / "tls", ("registry-0",))
    assert found is not None
    assert found.admins[0] == "spiffe://mesh.example.com/user/anna"


def test_another_start_keeps_what_is_there(made: MeshCredentials, tmp_path: Path) -> None:
    before = made.service("registry-0").certificate.read_bytes()
    prepared(True, tmp_path / "tls", ("registry-0", "registry-1"))
    assert made.service("registry-0").certificate.read_bytes() == before
    assert made.service("registry-1").certificate.exists()


def test_a_mesh_in_plain_text_has_no_certificates(tmp_path: Path) -> None:
    assert prepared(False, tmp_path / "tls", ("registry-0",)) is None
    assert not (tmp_path / "tls").exists()


def test_what_ends_soon_is_renewed_once_an_hour(tmp_path: Path) -> None:
    said: list[str] = []
    now = [1_000.0]
    made = MeshCredentials(tmp_path / "tls", ("dlq-0",), monotonic=lambda: now[0])
    made.prepare()
    made.renew_when_due(said.append)
    assert said == []
    authority = Authority(tmp_path / "tls")
    authority.issue(Identity.parse("service/dlq-0"), datetime.now(UTC) - timedelta(days=61), HERE)
    made.renew_when_due(said.append)
    assert said == []
    now[0] += DEV_RENEWAL_SECONDS
    made.renew_when_due(said.append)
    assert said == ["the certificate of service/dlq-0 was renewed"]


def test_a_damaged_directory_is_said_and_ends_nothing(made: MeshCredentials, tmp_path: Path) -> None:
    (tmp_path / "tls" / "ca" / "key.pem").chmod(0o644)
    said: list[str] = []
    made.renew_when_due(said.append)
    assert len(said) == 1 and said[0].startswith("certificates cannot be renewed: ")


def test_documents_name_three_files(made: MeshCredentials, tmp_path: Path) -> None:
    paths = paths_of(made.user)
    assert list(paths) == ["ca", "certificate", "key"]
    assert {Path(path).parent for path in paths.values()} == {tmp_path / "tls" / "user" / "anna-k"}


@pytest.mark.parametrize(
    ("login", "name"),
    [("anna", "anna"), ("Anna.K", "anna.k"), ("ANNA\\k", "anna-k"), ("", "dev"), (".._", "dev"), ("a" * 80, "a" * 63)],
)
def test_any_login_name_gives_a_name(login: str, name: str) -> None:
    assert str(user_identity(login)) == f"user/{name}"
    assert Identity.parse(f"user/{name}").name == name
