"""Which mesh a command talks to."""

from pathlib import Path

import pytest

from braid.cli import app
from braid.cli.core.endpoints import Choice, Endpoint, contexts_path, find_endpoint
from braid.kernel.errors import Invalid

CONTEXTS = "current: home\ncontexts:\n  home: {endpoint: 'home:1'}\n  work: {endpoint: 'a:1,b:2'}\n"


def test_what_was_typed_comes_first(tmp_path: Path) -> None:
    environment = {"BRAID_ENDPOINT": "other:2", "HOME": str(tmp_path)}
    assert find_endpoint(Choice("here:1"), environment, tmp_path) == Endpoint(("here:1",), "--endpoint")
    assert find_endpoint(Choice(), environment, tmp_path) == Endpoint(("other:2",), "BRAID_ENDPOINT")


def test_contexts(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    path.write_text(CONTEXTS)
    environment = {"BRAID_CONTEXTS": str(path)}
    assert find_endpoint(Choice(), environment, tmp_path).addresses == ("home:1",)
    assert find_endpoint(Choice(context="work"), environment, tmp_path).addresses == ("a:1", "b:2")
    assert find_endpoint(Choice(), environment | {"BRAID_CONTEXT": "work"}, tmp_path).addresses == ("a:1", "b:2")
    named = find_endpoint(Choice(context="work"), environment | {"BRAID_ENDPOINT": "x:1"}, tmp_path)
    assert named.origin == f"context work of {path}"
    with pytest.raises(Invalid, match="there is no context 'wrok'") as refused:
        find_endpoint(Choice(context="wrok"), environment, tmp_path)
    assert refused.value.remedy == "did you mean work?"


def test_where_contexts_are() -> None:
    assert contexts_path({"XDG_CONFIG_HOME": "/config"}) == Path("/config/braid/contexts.yaml")
    assert contexts_path({"HOME": "/somebody"}) == Path("/somebody/.config/braid/contexts.yaml")


def test_a_local_mesh_is_found_and_said(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    (tmp_path / ".braid").mkdir()
    (tmp_path / ".braid" / "ready.json").write_text('{"endpoint": "127.0.0.1:7401"}')
    found = find_endpoint(Choice(), environment, tmp_path)
    assert found.addresses == ("127.0.0.1:7401",)
    assert found.note == "using the mesh of ./.braid at 127.0.0.1:7401"


def test_what_is_out_of_form(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    with pytest.raises(Invalid, match="no mesh is named"):
        find_endpoint(Choice(), environment, tmp_path)
    for wrong in ("host", "host:", ":1", "host:0", "host:70000", ","):
        with pytest.raises(Invalid, match="is not host:port"):
            find_endpoint(Choice(wrong), environment, tmp_path)
    (tmp_path / "contexts.yaml").write_text("contexts: [1]")
    with pytest.raises(Invalid, match="is no contexts file"):
        find_endpoint(Choice(), {"BRAID_CONTEXTS": str(tmp_path / "contexts.yaml")}, tmp_path)
    (tmp_path / ".braid").mkdir()
    (tmp_path / ".braid" / "ready.json").write_text("{")
    with pytest.raises(Invalid, match="cannot be understood"):
        find_endpoint(Choice(), environment, tmp_path)


def test_flags_that_name_the_mesh_may_stand_first() -> None:
    assert app.verb_first(["--endpoint", "a:1", "--context=x", "get", "streams"]) == [
        *("get", "streams", "--endpoint", "a:1", "--context=x")
    ]
    assert app.verb_first(["get", "streams"]) == ["get", "streams"]
    assert app.verb_first(["--endpoint"]) == []


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["get", "streams", "--endpoint", "127.0.0.1:1"]) == 3
    told = capsys.readouterr().err
    assert "no replica of the mesh answers" in told
    assert "the endpoint is from --endpoint" in told
