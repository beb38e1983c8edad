"""Real brokers as `devmesh` runs them: identity kept across deaths, faults that do what they say, clear refusals."""

import socket
import time
from pathlib import Path

import pytest

from braid.kernel.errors import Refused, Unavailable
from devmesh.brokers import KafkaBroker
from tests.support.brokers import READY_SECONDS, free_port, new_broker, running_broker

pytestmark = pytest.mark.timeout(600)


def _cluster_id(broker: KafkaBroker) -> str:
    lines = (broker.directory / "data" / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("cluster.id="))


def _runs(broker: KafkaBroker) -> bool:
    return broker.pid is not None


def test_a_broker_keeps_its_identity_through_kill_pause_and_stop(tmp_path: Path) -> None:
    with running_broker("east", tmp_path / "east") as broker:
        identity, first_pid = _cluster_id(broker), broker.pid
        with pytest.raises(Refused, match="running already"):
            broker.start()

        broker.pause()
        with pytest.raises(Unavailable, match="not ready"):
            broker.wait_ready(0.3)
        broker.resume()
        broker.wait_ready(READY_SECONDS)
        assert broker.pid == first_pid

        broker.pause()
        broker.kill()
        assert not _runs(broker)
        broker.start()
        broker.wait_ready(READY_SECONDS)
        assert broker.pid not in (None, first_pid)
        assert _cluster_id(broker) == identity

        broker.stop()
        assert not _runs(broker)
        broker.kill()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        broker = new_broker("east", tmp_path)
        broker.port = other.getsockname()[1]
        with pytest.raises(Refused, match=str(broker.port)):
            broker.start()


def test_a_directory_that_cannot_be_formatted_says_why(tmp_path: Path) -> None:
    broker = new_broker("east", tmp_path, {"process.roles": "nonsense"})
    with pytest.raises(Unavailable, match="nonsense"):
        broker.start()


def test_a_java_that_is_not_there_is_named(tmp_path: Path) -> None:
    broker = KafkaBroker("east", tmp_path, free_port(), free_port(), "none", "a", java="/nonexistent/java")
    with pytest.raises(Unavailable, match="/nonexistent/java"):
        broker.start()


def test_a_broker_that_ends_while_starting_is_noticed_at_once(tmp_path: Path) -> None:
    broker = new_broker("east", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    broker.start()
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="ended while starting"):
        broker.wait_ready(READY_SECONDS)
    assert time.monotonic() - begun < READY_SECONDS / 2
