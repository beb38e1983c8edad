"""A mesh's own CA: what it issues is accepted by TLS, and what must be refused is."""

import os
import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from braid.certs import authority as authority_module
from braid.certs.authority import Authority
from braid.certs.contents import Reached
from braid.certs.identity import Identity
from braid.certs.renewal import LeafState
from braid.kernel.errors import AlreadyExists, Invalid, NotFound, Refused
from tests.support.tls_handshake import handshake

NOW = datetime.now(UTC)
SERVICE = Identity.parse("service/registry-0")
ANNA = Identity.parse("user/anna")
HERE = Reached(("localhost",), ("127.0.0.1",))


@pytest.fixture
def mesh(tmp_path: Path) -> Authority:
    """A CA with a service's leaf and a person's."""
    return issued(tmp_path / "certs")


def issued(directory: Path, now: datetime = NOW) -> Authority:
    authority = Authority.create(directory, "mesh.test", now)
    authority.issue(SERVICE, now, HERE)
    authority.issue(ANNA, now)
    return authority


def copied(authority: Authority, identity: Identity, to: Path) -> Path:
    """A leaf's directory as it was copied to its process's machine."""
    return Path(shutil.copytree(authority.path(identity), to))


def test_two_leaves_accept_one_another(mesh: Authority) -> None:
    for host in ("localhost", "127.0.0.1"):
        seen = handshake(mesh.path(SERVICE), mesh.path(ANNA), host=host)
        assert seen == (["spiffe://mesh.test/user/anna"], ["spiffe://mesh.test/service/registry-0"])


def test_a_service_is_accepted_as_a_client_too(mesh: Authority) -> None:
    assert handshake(mesh.path(SERVICE), mesh.path(SERVICE))[0] == ["spiffe://mesh.test/service/registry-0"]


def test_a_persons_leaf_is_refused_as_a_server(mesh: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(mesh.path(ANNA), mesh.path(ANNA))


def test_a_service_is_refused_under_another_name(mesh: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        handshake(mesh.path(SERVICE), mesh.path(ANNA), host="elsewhere")


def test_leaves_of_another_mesh_are_refused(mesh: Authority, tmp_path: Path) -> None:
    other = issued(tmp_path / "other")
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(mesh.path(SERVICE), other.path(ANNA))
    both = copied(other, ANNA, tmp_path / "trusts-us")
    shutil.copy(mesh.path(ANNA) / "ca.pem", both / "ca.pem")
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(mesh.path(SERVICE), both)


def test_a_leaf_that_has_ended_is_refused_until_renewed(tmp_path: Path) -> None:
    old = issued(tmp_path / "certs", NOW - timedelta(days=91))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(old.path(SERVICE), old.path(ANNA))
    assert {each.reason for each in old.renew(NOW)} == {LeafState.ENDED}
    handshake(old.path(SERVICE), old.path(ANNA))


def test_openssl_verifies_chains_by_purpose(mesh: Authority) -> None:
    mesh.begin_rotation(NOW)
    service, anna = mesh.path(SERVICE), mesh.path(ANNA)
    assert _openssl(service, "sslserver") and _openssl(service, "sslclient")
    assert _openssl(anna, "sslclient") and not _openssl(anna, "sslserver")


def _openssl(directory: Path, purpose: str) -> bool:
    command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", str(directory / "ca.pem")]
    leaf = str(directory / "certificate.pem")
    return subprocess.run([*command, "-untrusted", leaf, leaf], capture_output=True).returncode == 0


def test_a_renewed_leaf_keeps_key_names_and_days(mesh: Authority) -> None:
    mesh.issue(SERVICE, NOW - timedelta(days=7), HERE, days=10)
    key = (mesh.path(SERVICE) / "key.pem").read_bytes()
    renewed = mesh.renew(NOW)
    assert [(str(each.contents.identity), each.reason) for each in renewed] == [
        ("service/registry-0", LeafState.ENDS_SOON)
    ]
    assert (mesh.path(SERVICE) / "key.pem").read_bytes() == key
    again = mesh.leaves()[0].contents
    assert (again.reached, again.validity.days) == (HERE, 10)


def test_a_reader_between_two_files_has_a_fitting_key(mesh: Authority, tmp_path: Path) -> None:
    """The certificate of before beside the key of afterwards, and the other way round."""
    before = copied(mesh, SERVICE, tmp_path / "before")
    mesh.issue(SERVICE, NOW + timedelta(seconds=1))
    mixed = copied(mesh, SERVICE, tmp_path / "mixed")
    for name in ("certificate.pem", "key.pem"):
        shutil.copy(before / name, mixed / name)
        handshake(mixed, mesh.path(ANNA))
        shutil.copy(mesh.path(SERVICE) / name, mixed / name)


def test_a_new_key_is_made_only_when_asked_for(mesh: Authority) -> None:
    key = (mesh.path(ANNA) / "key.pem").read_bytes()
    mesh.issue(ANNA, NOW)
    assert (mesh.path(ANNA) / "key.pem").read_bytes() == key
    mesh.issue(ANNA, NOW, fresh_key=True)
    assert (mesh.path(ANNA) / "key.pem").read_bytes() != key
    handshake(mesh.path(SERVICE), mesh.path(ANNA))


def test_a_ca_rotates_while_files_arrive_in_any_order(mesh: Authority, tmp_path: Path) -> None:
    """Copies of three times: before, between, and after; each accepts its neighbours in time."""
    begun: dict[str, tuple[Path, Path]] = {}
    for step, change in (("before", None), ("between", mesh.begin_rotation), ("after", mesh.finish_rotation)):
        if change is not None:
            assert len(change(NOW)) == 2
        begun[step] = (copied(mesh, SERVICE, tmp_path / f"{step}-s"), copied(mesh, ANNA, tmp_path / f"{step}-a"))
    for one, other in (("before", "between"), ("between", "after"), ("between", "between"), ("after", "after")):
        handshake(begun[one][0], begun[other][1])
        handshake(begun[other][0], begun[one][1])
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        handshake(begun["after"][0], begun["before"][1])


def test_an_interrupted_rotation_goes_on(mesh: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(authority_module, "leaf_contents", _die)
        with pytest.raises(KeyboardInterrupt):
            mesh.begin_rotation(NOW)
    assert not any(leaf.signed_by_ca for leaf in mesh.leaves())
    with pytest.raises(Refused, match="still signed by the CA before"):
        mesh.finish_rotation(NOW)
    ca = (mesh.directory / "ca" / "certificate.pem").read_bytes()
    assert len(Authority(mesh.directory).begin_rotation(NOW)) == 2
    assert (mesh.directory / "ca" / "certificate.pem").read_bytes() == ca
    assert len(mesh.finish_rotation(NOW)) == 2
    assert mesh.previous_validity is None


def test_a_ca_that_has_ended_is_replaced(tmp_path: Path) -> None:
    old = issued(tmp_path / "certs", NOW - timedelta(days=3_651))
    with pytest.raises(Refused, match="the CA ends on"):
        old.renew(NOW)
    old.begin_rotation(NOW)
    handshake(old.path(SERVICE), old.path(ANNA))


def test_finishing_needs_a_rotation(mesh: Authority) -> None:
    with pytest.raises(Refused, match="no rotation"):
        mesh.finish_rotation(NOW)


def test_nothing_is_overwritten(mesh: Authority, tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists) as refused:
        Authority.create(mesh.directory, "mesh.test", NOW)
    assert refused.value.field == "DIR"
    full = tmp_path / "full"
    full.mkdir()
    (full / "note").write_text("mine")
    with pytest.raises(AlreadyExists):
        Authority.create(full, "mesh.test", NOW)
    assert [each.name for each in full.iterdir()] == ["note"]


def test_every_file_is_for_its_owner_alone(mesh: Authority) -> None:
    found = [path for path in mesh.directory.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in found if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [mesh.directory, *found] if path.is_dir()} == {0o700}


def test_a_ca_key_that_others_can_read_is_refused(mesh: Authority) -> None:
    (mesh.directory / "ca" / "key.pem").chmod(0o644)
    with pytest.raises(Invalid, match="open to other users"):
        Authority(mesh.directory)


def test_a_directory_without_a_ca_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds no CA") as refused:
        Authority(tmp_path)
    assert "braid certs init" in refused.value.remedy


def test_a_damaged_leaf_is_named(mesh: Authority) -> None:
    (mesh.path(ANNA) / "certificate.pem").write_text("nonsense")
    with pytest.raises(Invalid, match=r"user/anna/certificate\.pem gives no certificate"):
        mesh.leaves()


def test_a_second_process_is_refused_meanwhile(mesh: Authority) -> None:
    import fcntl

    descriptor = os.open(mesh.directory / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(Refused, match="another process works"):
            mesh.issue(ANNA, NOW)
    finally:
        os.close(descriptor)
    mesh.issue(ANNA, NOW)


def _die(*_: object) -> None:
    raise KeyboardInterrupt
