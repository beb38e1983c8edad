"""Which mesh a command talks to: flags come first, and errors name them."""

from pathlib import Path

import pytest

from braid.cli import app
from braid.cli.core.endpoints import Choice, find_endpoint
from braid.host.endpoints import Endpoint
from braid.kernel.errors import Invalid


def test_a_flag_is_the_endpoint_and_an_empty_one_was_not_typed(tmp_path: Path) -> None:
    environment = {"BRAID_ENDPOINT": "other:2", "HOME": str(tmp_path)}
    assert find_endpoint(Choice("here:1"), environment, tmp_path) == Endpoint(("here:1",), "--endpoint")
    assert find_endpoint(Choice(), environment, tmp_path) == Endpoint(("other:2",), "BRAID_ENDPOINT")


def test_an_error_names_the_flag(tmp_path: Path) -> None:
    environment = {"BRAID_CONTEXTS": str(tmp_path / "none.yaml")}
    wrong = {"--endpoint": Choice("host"), "--context": Choice(context="home")}
    assert [refused(choice, environment, tmp_path).field for choice in wrong.values()] == list(wrong)
    nothing = refused(Choice(), environment, tmp_path)
    assert (nothing.field, nothing.remedy[:15]) == ("--endpoint", "give --endpoint")


def refused(choice: Choice, environment: dict[str, str], directory: Path) -> Invalid:
    """How it is refused."""
    with pytest.raises(Invalid) as found:
        find_endpoint(choice, environment, directory)
    return found.value


def test_flags_that_name_the_mesh_may_stand_first() -> None:
    assert app.verb_first(["--endpoint", "a:1", "--context=x", "get", "streams"]) == [
        *("get", "streams", "--endpoint", "a:1", "--context=x")
    ]
    assert app.verb_first(["get", "streams"]) == ["get", "streams"]
    assert app.verb_first(["--endpoint"]) == []


def test_an_unreachable_endpoint_is_named_with_its_origin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert app.run(["get", "streams", "--endpoint", "127.0.0.1:1"]) == 3
    told = capsys.readouterr().err
    assert "no replica of the mesh answers" in told
    assert "the endpoint is from --endpoint" in told
    assert "an endpoint may list several replicas (HOST:PORT,HOST:PORT)" in told
    assert app.run(["get", "streams", "--endpoint", "127.0.0.1:1,127.0.0.1:2"]) == 3
    assert "may list several" not in capsys.readouterr().err
