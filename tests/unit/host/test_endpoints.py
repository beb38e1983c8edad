"""Which mesh a command or a program talks to."""

import json
from pathlib import Path
from typing import Final

import pytest

import braid
import braid.sync
from braid.client.mesh import Mesh, system_ports
from braid.host.endpoints import Choice, Endpoint, contexts_path, resolve, unreachable
from braid.host.tls.paths import Tls
from braid.host.tokens import Token
from braid.kernel.errors import Invalid, Unavailable

CONTEXTS = "current: home\ncontexts:\n  home: {endpoint: 'home:1'}\n  work: {endpoint: 'a:1,b:2'}\n"


def test_what_was_named_comes_first(tmp_path: Path) -> None:
    environment = {"BRAID_ENDPOINT": "other:2", "HOME": str(tmp_path)}
    assert resolve(Choice("here:1"), environment, tmp_path) == Endpoint(("here:1",), "connect()")
    assert resolve(Choice(), environment, tmp_path) == Endpoint(("other:2",), "BRAID_ENDPOINT")


def test_contexts(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(CONTEXTS)
    environment = {"BRAID_CONTEXTS": str(path)}
    assert resolve(Choice(), environment, tmp_path).addresses == ("home:1",)
    assert resolve(Choice(context="work"), environment, tmp_path).addresses == ("a:1", "b:2")
    assert resolve(Choice(), environment | {"BRAID_CONTEXT": "work"}, tmp_path).addresses == ("a:1", "b:2")
    named = resolve(Choice(context="work"), environment | {"BRAID_ENDPOINT": "x:1"}, tmp_path)
    assert named.origin == f"context work of {path}"
    with pytest.raises(Invalid, match="there is no context 'wrok'") as refused:
        resolve(Choice(context="wrok"), environment, tmp_path)
    assert refused.value.remedy == "did you mean work?"


def test_where_contexts_are() -> None:
    assert contexts_path({"XDG_CONFIG_HOME": "/config"}) == Path("/config/braid/contexts.yaml")
    assert contexts_path({"HOME": "/somebody"}) == Path("/somebody/.config/braid/contexts.yaml")


def ready(directory: Path, text: str) -> None:
    """Writes the ready file of a mesh that runs in the directory."""
    (directory / ".braid").mkdir(exist_ok=True)
    (directory / ".braid" / "ready.json").write_text(text)


def test_a_local_mesh_is_found_and_said(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    ready(tmp_path, '{"endpoint": "127.0.0.1:7401"}')
    found = resolve(Choice(), environment, tmp_path)
    assert found.addresses == ("127.0.0.1:7401",)
    assert found.note == "using the mesh of ./.braid at 127.0.0.1:7401"


def test_what_is_out_of_form(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    with pytest.raises(Invalid, match="no mesh is named"):
        resolve(Choice(), environment, tmp_path)
    for wrong in ("host", "host:", ":1", "host:0", "host:70000", ","):
        with pytest.raises(Invalid, match="is not host:port"):
            resolve(Choice(wrong), environment, tmp_path)
    (tmp_path / "contexts.yaml").write_text("contexts: [1]")
    with pytest.raises(Invalid, match="is no contexts file"):
        resolve(Choice(), {"BRAID_CONTEXTS": str(tmp_path / "contexts.yaml")}, tmp_path)
    ready(tmp_path, "{")
    with pytest.raises(Invalid, match="cannot be understood"):
        resolve(Choice(), environment, tmp_path)


def test_a_local_meshs_replicas_are_known_beside_its_endpoint(tmp_path: Path) -> None:
    ready(tmp_path, '{"endpoint": "a:2", "services": {"r-0": {"address": "a:2"}, "r-1": {"address": "a:3"}}}')
    found = resolve(Choice(), {"HOME": str(tmp_path)}, tmp_path)
    assert found.addresses == ("a:2", "a:3")
    assert found.note == "using the mesh of ./.braid at a:2"


def test_connecting_without_an_endpoint_finds_what_the_cli_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BRAID_ENDPOINT", "BRAID_CONTEXT", "BRAID_CONTEXTS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid, match="no mesh is named") as refused:
        braid.connect()
    assert (refused.value.field, refused.value.remedy[:28]) == ("endpoint", 'give endpoint "HOST:PORT" or')
    ready(tmp_path, '{"endpoint": "nearby:1"}')
    assert braid.find_endpoint() == "nearby:1"
    (tmp_path / "contexts.yaml").write_text(CONTEXTS)
    monkeypatch.setenv("BRAID_CONTEXTS", str(tmp_path / "contexts.yaml"))
    assert braid.find_endpoint() == "home:1"
    monkeypatch.setenv("BRAID_ENDPOINT", "a:1,b:2")
    assert braid.find_endpoint() == "a:1,b:2"
    assert isinstance(braid.connect(), Mesh)
    assert isinstance(braid.sync.connect(), braid.sync.Mesh)


def test_an_empty_endpoint_is_refused_and_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_ENDPOINT", "a:1")
    for wrong in ("", " , "):
        with pytest.raises(Invalid, match="is not host:port") as refused:
            braid.connect(wrong)
        assert refused.value.field == "endpoint"


async def test_a_silent_mesh_is_reported_with_its_endpoints_source(tmp_path: Path) -> None:
    ready(tmp_path, '{"endpoint": "127.0.0.1:1"}')
    nearby = resolve(Choice(), {"HOME": str(tmp_path)}, tmp_path)
    one, several = (resolve(Choice(text), {}, tmp_path) for text in ("127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"))
    told = [await how_it_fails(each) for each in (nearby, one, several)]
    assert [error.message.partition("; the endpoint is from ")[2] for error in told] == [
        *(".braid/ready.json", "connect()", "connect()")
    ]
    assert "start it again with `braid dev --detach`" in told[0].remedy
    assert ["several replicas (HOST:PORT,HOST:PORT)" in error.remedy for error in told] == [False, True, False]


async def how_it_fails(found: Endpoint) -> Unavailable:
    """The error of entering a mesh without reachable replicas."""
    ports = system_ports("test")
    mesh = Mesh(ports.host, ports.kafka, ports.transport, found.addresses, "test", "", open_seconds=0.0, found=found)
    with pytest.raises(Unavailable) as failed:
        await mesh.__aenter__()
    return failed.value


NEARBY: Final = json.dumps(
    {
        "endpoint": "a:2",
        "services": {"r-1": {"address": "a:3"}},
        "tls": {"ca": "/n/ca.pem", "certificate": "/n/certificate.pem", "key": "/n/key.pem"},
    }
)


@pytest.mark.parametrize("environment", [{}, {"BRAID_ENDPOINT": "a:3,a:9"}])
def test_an_address_of_the_mesh_nearby_has_its_files(tmp_path: Path, environment: dict[str, str]) -> None:
    """A Spark job is given the address that `find_endpoint` found, and nothing else."""
    ready(tmp_path, NEARBY)
    environment = {"HOME": str(tmp_path), **environment}
    choice = Choice() if "BRAID_ENDPOINT" in environment else Choice("a:2,a:3")
    assert resolve(choice, environment, tmp_path).tls == Tls(
        Path("/n/certificate.pem"), Path("/n/key.pem"), Path("/n/ca.pem")
    )
    assert resolve(Choice("elsewhere:2"), environment, tmp_path).tls is None


def test_an_address_of_the_context_in_use_has_its_files(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(TLS_CONTEXT)
    environment = {"BRAID_CONTEXTS": str(path)}
    found = resolve(Choice("home:1"), environment, tmp_path)
    assert (found.origin, found.tls) == ("connect()", resolve(Choice(), environment, tmp_path).tls)
    assert found.tls is not None


def test_a_context_without_files_uses_those_of_the_local_mesh(tmp_path: Path) -> None:
    """Contexts for a local mesh were written when it spoke plain text."""
    ready(tmp_path, NEARBY)
    path = tmp_path / "contexts.yaml"
    environment = {"BRAID_CONTEXTS": str(path)}
    for address, wanted in (("a:2", Path("/n/key.pem")), ("b:2", None)):
        path.write_text(f"current: home\ncontexts: {{home: {{endpoint: {address}}}}}\n")
        found = resolve(Choice(), environment, tmp_path)
        assert (found.addresses, found.tls and found.tls.key) == ((address,), wanted)


@pytest.mark.parametrize("damaged", ["{", '{"endpoint": "a:2", "tls": 1}'])
def test_an_address_that_was_named_needs_no_other_file(tmp_path: Path, damaged: str) -> None:
    ready(tmp_path, damaged)
    (tmp_path / "contexts.yaml").write_text("contexts: [1]")
    environment = {"BRAID_CONTEXTS": str(tmp_path / "contexts.yaml")}
    assert resolve(Choice("a:2"), environment, tmp_path).tls is None


FILES = {"BRAID_TLS_CERTIFICATE": "/e.crt", "BRAID_TLS_KEY": "/e.key", "BRAID_TLS_CA": "/e-ca.crt"}
TLS_CONTEXT = """
current: home
contexts:
  home: {endpoint: "home:1", tls: {certificate: alice.crt, key: /keys/alice.key, ca: ../ca.crt}}
"""


def test_files_of_mutual_tls_stand_beside_a_contexts_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(TLS_CONTEXT)
    found = resolve(Choice(), {"BRAID_CONTEXTS": str(path)}, tmp_path)
    assert found.tls == Tls(tmp_path / "alice.crt", Path("/keys/alice.key"), tmp_path / ".." / "ca.crt")


def test_files_of_mutual_tls_stand_beside_a_local_meshs_endpoint(tmp_path: Path) -> None:
    ready(tmp_path, '{"endpoint": "a:1", "tls": {"certificate": "me.crt", "key": "me.key", "ca": "ca.crt"}}')
    home = tmp_path / ".braid"
    found = resolve(Choice(), {"HOME": str(tmp_path)}, tmp_path)
    assert found.tls == Tls(home / "me.crt", home / "me.key", home / "ca.crt")


def test_named_files_precede_the_environment_then_a_context(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(TLS_CONTEXT)
    environment = {"BRAID_CONTEXTS": str(path), **FILES}
    of_environment = Tls(Path("/e.crt"), Path("/e.key"), Path("/e-ca.crt"))
    named = Tls(Path("/n.crt"), Path("/n.key"), Path("/n-ca.crt"))
    assert resolve(Choice(), environment, tmp_path).tls == of_environment
    assert resolve(Choice(tls=named), environment, tmp_path).tls == named
    assert resolve(Choice("here:1"), {"BRAID_CONTEXTS": str(path)}, tmp_path).tls is None


@pytest.mark.parametrize(
    ("entry", "field", "said"),
    [
        ("{certificate: a, key: b}", "contexts.home.tls.ca", "is not set, though contexts.home.tls.certificate is"),
        ("{cert: a, key: b, ca: c}", "contexts.home.tls", "has no 'cert'"),
        ("a.pem", "contexts.home.tls", "is no mapping"),
    ],
)
def test_files_of_mutual_tls_out_of_form_are_refused(entry: str, field: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(f"current: home\ncontexts: {{home: {{endpoint: 'home:1', tls: {entry}}}}}")
    with pytest.raises(Invalid, match=said) as error:
        resolve(Choice(), {"BRAID_CONTEXTS": str(path)}, tmp_path)
    assert error.value.field == field


def test_connecting_refuses_files_that_cannot_be_used(tmp_path: Path) -> None:
    missing = Tls(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    with pytest.raises(Invalid, match="does not exist") as error:
        braid.connect("here:1", tls=missing)
    assert error.value.field == "tls.certificate"


# --- tokens


def written(directory: Path, text: str) -> Path:
    """A contexts file."""
    path = directory / "contexts.yaml"
    path.write_text(text)
    return path


def test_a_token_that_is_named_counts_before_everything_else(tmp_path: Path) -> None:
    environment = {
        **{f"BRAID_TLS_{name}": f"/env/{name.lower()}" for name in ("CERTIFICATE", "KEY", "CA")},
        "BRAID_TOKEN_FILE": "/env/token",
    }
    named = Choice("h:1", tls=Tls(Path("c"), Path("k"), Path("/named/ca")), token=Token(text="a.b.c"))
    found = resolve(named, environment, tmp_path)
    assert (found.tls, found.token) == (None, Token(text="a.b.c", ca=Path("/named/ca")))
    found = resolve(Choice("h:1", token=Token(text="a.b.c")), environment, tmp_path)
    assert found.token == Token(text="a.b.c", ca=Path("/env/ca"))
    found = resolve(Choice("h:1"), environment, tmp_path)
    assert (found.tls, found.token) == (None, Token(Path("/env/token"), ca=Path("/env/ca")))
    named = Choice("h:1", tls=Tls(Path("c"), Path("k"), Path("/named/ca")))
    found = resolve(named, environment, tmp_path)
    assert (found.tls, found.token) == (named.tls, None)
    found = resolve(Choice("h:1"), {"BRAID_TOKEN": "d.e.f"}, tmp_path)
    assert found.token == Token(text="d.e.f")
    with pytest.raises(Invalid, match="BRAID_TOKEN: is set, and BRAID_TOKEN_FILE, too"):
        resolve(Choice("h:1"), {"BRAID_TOKEN": "d.e.f", "BRAID_TOKEN_FILE": "t"}, tmp_path)


def test_a_context_names_a_token_and_whom_to_trust(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "current: home\ncontexts:\n  home: {endpoint: 'h:1', token_file: token, tls: {ca: ca.crt}}\n"
        "  other: {endpoint: 'h:2'}\n",
    )
    environment = {"BRAID_CONTEXTS": str(path)}
    wanted = Token(tmp_path / "token", ca=tmp_path / "ca.crt")
    for choice in (Choice(), Choice("h:1")):
        found = resolve(choice, environment, tmp_path)
        assert (found.tls, found.token) == (None, wanted)
    assert resolve(Choice(context="other"), environment, tmp_path).token is None


def test_connect_takes_one_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("a.b.c")
    braid.connect("h:1", token_file=file)
    braid.connect("h:1", token="a.b.c")
    for wrong in ({"token": "a.b.c", "token_file": file}, {"token": Token(file), "token_file": file}, {"token": ""}):
        with pytest.raises(Invalid):
            braid.connect("h:1", **wrong)


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("the server does not trust the authority that signed user.pem", "check BRAID_TLS_CERTIFICATE"),
        ("the server's certificate is not signed by an authority in ca.pem", "check BRAID_TLS_CERTIFICATE"),
        ("connection refused", "that mesh has ended"),
    ],
)
def test_a_mesh_that_answers_has_not_ended(cause: str, remedy: str) -> None:
    error = Unavailable(f"no replica of the mesh answers (127.0.0.1:7401: no connection ({cause}))")
    here = Endpoint(("127.0.0.1:7401",), ".braid/ready.json", "using the mesh of ./.braid")
    assert remedy in unreachable(error, here).remedy
