"""The probe of container health checks, against a real server in this process."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from braid.runtime.health import LISTEN_VARIABLE, address_of, main


class Serving:
    """A server whose health can be set."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._server = grpc.server(self._pool)
        self._health = HealthServicer()
        add_HealthServicer_to_server(self._health, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def say(self, status: "HealthCheckResponse.ServingStatus.ValueType") -> None:
        """Sets the answer from now on."""
        self._health.set("", status)

    def stop(self) -> None:
        """Ends it."""
        self._server.stop(None).wait()
        self._pool.shutdown()


@pytest.fixture
def serving() -> Iterator[Serving]:
    server = Serving()
    yield server
    server.stop()


def test_one_that_serves_is_well(serving: Serving) -> None:
    serving.say(HealthCheckResponse.SERVING)
    assert main([serving.address]) == 0


def test_one_that_starts_or_stops_is_not(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    serving.say(HealthCheckResponse.NOT_SERVING)
    assert main([serving.address]) == 1
    assert capsys.readouterr().err == f"{serving.address} answers NOT_SERVING\n"


def test_one_that_is_gone_is_not(serving: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    serving.stop()
    assert main([serving.address]) == 1
    assert f"{serving.address} does not answer: UNAVAILABLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "listen", "address"),
    [
        (["a:1"], "", "a:1"),
        (["a:1"], "0.0.0.0:2", "a:1"),
        ([], "0.0.0.0:2", "127.0.0.1:2"),
        ([], "[::]:2", "127.0.0.1:2"),
        ([], "10.0.0.1:2", "10.0.0.1:2"),
        ([], "", ""),
        (["nowhere"], "", ""),
    ],
)
def test_whom_it_asks(arguments: list[str], listen: str, address: str) -> None:
    assert address_of(arguments, {LISTEN_VARIABLE: listen}) == address


@pytest.mark.parametrize(
    ("ready", "environment", "address"),
    [
        ('{"address": "a:1", "health": "127.0.0.1:3"}', {"BRAID_HEALTH_LISTEN": "b:4"}, "127.0.0.1:3"),
        ('{"address": "a:1"}', {"BRAID_HEALTH_LISTEN": "0.0.0.0:4", "BRAID_LISTEN": "a:1"}, "127.0.0.1:4"),
        ("{", {"BRAID_LISTEN": "a:1"}, "a:1"),
        ("", {"BRAID_HEALTH_LISTEN": "127.0.0.1:0", "BRAID_LISTEN": "a:1"}, "a:1"),
    ],
)
def test_it_asks_where_no_certificate_is_wanted(
    ready: str, environment: dict[str, str], address: str, tmp_path: Path
) -> None:
    file = tmp_path / "ready.json"
    if ready:
        file.write_text(ready)
    assert address_of([], {"BRAID_READY_FILE": str(file), **environment}) == address


def test_nobody_to_ask_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(LISTEN_VARIABLE, raising=False)
    assert main([]) == 2
    assert LISTEN_VARIABLE in capsys.readouterr().err
