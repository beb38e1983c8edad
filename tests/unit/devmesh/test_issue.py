"""The first step of a composed mesh: certificates for everybody, made once, renewed, and two CAs that stay apart."""

from pathlib import Path

import pytest

from braid.certs.identity import Identity
from braid.host.tls.files import read_tls
from braid.host.tls.paths import Tls
from braid.runtime.access.settings import read_admins
from devmesh.issue import issue, main

NAMES = ("service/registry-0", "app/init", "admin/user/me", "member/etcd-0")


def shown(directory: Path) -> Tls:
    """A holder's files."""
    return Tls(directory / "certificate.pem", directory / "key.pem", directory / "ca.pem")


def test_every_holder_gets_its_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "cas"), str(tmp_path / "tls"), *NAMES]) == 0
    holders = ("registry-0", "registry-0/store", "init", "me", "etcd-0")
    found = {name: read_tls(shown(tmp_path / "tls" / name)) for name in holders}
    assert found["registry-0"].ca == found["init"].ca == found["me"].ca
    assert found["registry-0/store"].ca == found["etcd-0"].ca
    assert found["etcd-0"].ca != found["init"].ca, "an application's certificate must not open the store"
    assert len({each.key for each in found.values()}) == len(found)
    written = [path for path in (tmp_path / "tls").rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in written)
    assert {path.name for path in written} == {"certificate.pem", "key.pem", "ca.pem", "admins"}
    assert "certificates of service/registry-0, " in capsys.readouterr().out


def test_admins_are_named_by_what_their_certificates_say(tmp_path: Path) -> None:
    command = [str(tmp_path / "cas"), str(tmp_path / "tls")]
    assert main([*command, *NAMES, "admin/app/init"]) == 0
    assert sorted(read_admins(tmp_path / "tls" / "admins")) == [
        "spiffe://braid.local/app/init",
        "spiffe://braid.local/user/me",
    ]
    assert main([*command, *NAMES]) == 0
    assert list(read_admins(tmp_path / "tls" / "admins")) == ["spiffe://braid.local/user/me"]


def test_run_again_it_keeps_what_is_there_and_adds_what_is_new(tmp_path: Path) -> None:
    first = [Identity.parse("service/registry-0")]
    issue(tmp_path / "cas", tmp_path / "tls", first, ["etcd-0"])
    before = read_tls(shown(tmp_path / "tls" / "registry-0"))
    (tmp_path / "tls" / "registry-0" / "ca.pem").unlink()
    issue(tmp_path / "cas", tmp_path / "tls", [*first, Identity.parse("service/registry-1")], ["etcd-0", "etcd-1"])
    assert read_tls(shown(tmp_path / "tls" / "registry-0")) == before
    assert read_tls(shown(tmp_path / "tls" / "registry-1" / "store")).ca == read_tls(shown(tmp_path / "tls/etcd-1")).ca


@pytest.mark.parametrize("arguments", [[], ["/cas", "/tls"], ["/cas", "/tls", "registry-0"]])
def test_wrong_usage_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err


def test_what_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cas").write_text("")
    assert main([str(tmp_path / "cas"), str(tmp_path / "tls"), *NAMES]) == 1
    assert "cas" in capsys.readouterr().err
