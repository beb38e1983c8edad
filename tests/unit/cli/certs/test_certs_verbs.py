"""`braid certs` on the command line: what it prints, its exit codes, what it refuses."""

import json
from pathlib import Path

import pytest

from braid.cli import app


@pytest.fixture
def certs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A working directory with a CA in `certs`."""
    monkeypatch.chdir(tmp_path)
    assert app.run(["certs", "init", "--trust-domain", "mesh.test"]) == 0
    assert "a CA for spiffe://mesh.test, until " in capsys.readouterr().out
    return tmp_path / "certs"


def test_a_service_gets_three_files(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["certs", "issue", "service/registry-0", "--dns", "localhost", "--ip", "127.0.0.1"]) == 0
    assert capsys.readouterr().out.startswith("certs/service/registry-0: spiffe://mesh.test/service/registry-0, until ")
    names = {each.name for each in (certs / "service" / "registry-0").iterdir()}
    assert names == {"certificate.pem", "key.pem", "ca.pem"}


@pytest.mark.parametrize(
    ("typed", "meant"), [(["user", "bob"], "user/bob"), (["user/bob", "carol"], "user/bob"), (["me", "bob"], "me")]
)
def test_two_words_for_a_name_are_refused_with_the_one(
    certs: Path, capsys: pytest.CaptureFixture[str], typed: list[str], meant: str
) -> None:
    assert app.run(["certs", "issue", *typed]) == 2
    said = capsys.readouterr().err
    assert f"NAME: it takes one name, not also {typed[1]}" in said
    assert f"try: did you mean braid certs issue {meant}?" in said
    assert not (certs / "user").exists()


def test_show_lists_names_and_days_left(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.run(["certs", "issue", "user/anna", "--days", "40"])
    capsys.readouterr()
    assert app.run(["certs", "show"]) == 0
    header, ca, anna = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header[:4] == ["NAME", "ENDS", "DAYS", "STATE"]
    assert (ca[0], ca[2:4]) == ("ca", ["3650", "OK"])
    assert (anna[0], anna[2:4]) == ("user/anna", ["40", "OK"])


def test_show_as_json_names_the_files(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.run(["certs", "issue", "app/indexer"])
    capsys.readouterr()
    assert app.run(["certs", "show", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["trust_domain"] == "mesh.test"
    ca, leaf = document["certificates"]
    assert (ca["name"], ca["files"]) == ("ca", {})
    assert leaf["spiffe_id"] == "spiffe://mesh.test/app/indexer"
    assert Path(leaf["files"]["key"]).read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert (leaf["days_left"], leaf["state"]) == (90.0, "ok")


@pytest.mark.parametrize(("within", "code"), [("39", 0), ("41", 1)])
def test_a_check_ends_with_1_when_one_ends_soon(certs: Path, within: str, code: int) -> None:
    app.run(["certs", "issue", "user/anna", "--days", "40"])
    assert app.run(["certs", "show", "--check", "--within", within]) == code
    assert app.run(["certs", "show", "--within", within]) == 0


def test_rotate_renews_what_ends_soon(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.run(["certs", "issue", "user/anna", "--days", "20"])
    app.run(["certs", "issue", "user/otto"])
    capsys.readouterr()
    assert app.run(["certs", "rotate"]) == 0
    assert capsys.readouterr().out == "0 renewed\n"
    assert app.run(["certs", "rotate", "--within", "30"]) == 0
    assert "certs/user/anna: until" in (printed := capsys.readouterr().out)
    assert printed.endswith("(ends soon)\n1 renewed; copy them to their processes\n")


def test_a_ca_is_rotated_in_two_steps(certs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.run(["certs", "issue", "user/anna"])
    assert app.run(["certs", "rotate", "--ca"]) == 0
    assert "both CAs are trusted" in capsys.readouterr().out
    app.run(["certs", "show"])
    assert "previous ca" in capsys.readouterr().out
    assert app.run(["certs", "rotate", "--ca", "--finish"]) == 0
    app.run(["certs", "show"])
    assert "previous ca" not in capsys.readouterr().out
    assert app.run(["certs", "rotate", "--ca", "--finish"]) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["init"], 4, "DIR: certs is not empty"),
        (["init", "other", "--trust-domain", "A B"], 2, "--trust-domain: 'A B' is no trust domain"),
        (["issue", "registry-0"], 2, "NAME: 'registry-0' is no name of a certificate"),
        (["issue", "service/registry-0"], 2, "--dns: service/registry-0 needs a name or an address"),
        (["issue", "user/anna", "--ip", "10.0.0.1"], 2, "--ip: user/anna is no service"),
        (["issue", "user/anna", "--days", "0"], 2, "--days: 0 is not between 1 and 825"),
        (["issue", "user/anna", "--dir", "elsewhere"], 4, "--dir: elsewhere holds no CA"),
        (["rotate", "--finish"], 2, "--finish: only a rotation of the CA has an end"),
        (["rotate", "--ca", "--new-keys"], 2, "--new-keys: certificates of a new CA keep their keys"),
        (["show", "-o", "yaml"], 2, "--output: 'yaml' is no output format here"),
    ],
)
def test_what_is_refused_names_flag_and_remedy(
    certs: Path, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["certs", *arguments]) == code
    printed = capsys.readouterr().err
    assert printed.startswith(f"braid: {said}")
    assert "\n  try: " in printed
