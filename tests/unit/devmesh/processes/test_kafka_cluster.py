"""Clusters of several brokers: what each of them is told, and who waits for whom."""

from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from devmesh.blueprint import BROKER_SETTINGS, BrokerPlace, broker_settings, controller_nodes
from devmesh.processes import kafka_cluster
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.kafka_cluster import make_cluster, racks, wait_in_sync
from devmesh.processes.replication import ClusterCopies, PartitionCopies


def cluster(directory: Path, brokers: int) -> list[KafkaBroker]:
    """A cluster that is not started, on ports 10, 11, 20, 21, …"""
    ports = [(10 * node, 10 * node + 1) for node in range(1, brokers + 1)]
    return make_cluster("east", directory, ports, "jars", "b", settings={"num.io.threads": "2"})


def settings(directory: Path, brokers: int) -> list[dict[str, str]]:
    """The settings of each broker of a cluster."""
    return [broker.settings() for broker in cluster(directory, brokers)]


def test_a_cluster_of_one_is_the_broker_of_ever(tmp_path: Path) -> None:
    (alone,) = settings(tmp_path, 1)
    place = BrokerPlace("b", "127.0.0.1", 10, 11, str(tmp_path / "data"))
    assert alone == {**broker_settings(place), "num.io.threads": "2"}
    assert alone["offsets.topic.replication.factor"] == BROKER_SETTINGS["offsets.topic.replication.factor"] == "1"
    assert "min.insync.replicas" not in alone
    assert not list(tmp_path.iterdir())
    assert cluster(tmp_path, 1)[0].name == "east"


def test_three_brokers_control_and_copy_together(tmp_path: Path) -> None:
    found = settings(tmp_path, 3)
    for node, each in enumerate(found, start=1):
        assert each["node.id"] == str(node)
        assert each["process.roles"] == "broker,controller"
        assert each["controller.quorum.voters"] == "1@127.0.0.1:11,2@127.0.0.1:21,3@127.0.0.1:31"
        assert each["log.dirs"] == str(tmp_path / str(node) / "data")
        copies = {name: value for name, value in each.items() if name.endswith("replication.factor")}
        assert len(copies) == 4
        assert set(copies.values()) == {"3"}
        in_sync = {name: value for name, value in each.items() if "min.i" in name}
        assert len(in_sync) == 3
        assert set(in_sync.values()) == {"2"}
        assert each["num.io.threads"] == "2"
    assert [each["broker.rack"] for each in found] == ["b", "c", "d"]


def test_two_brokers_are_controlled_by_the_first(tmp_path: Path) -> None:
    first, second = settings(tmp_path, 2)
    assert (first["process.roles"], second["process.roles"]) == ("broker,controller", "broker")
    assert second["controller.quorum.voters"] == "1@127.0.0.1:11"
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:20"
    assert (second["default.replication.factor"], second["min.insync.replicas"]) == ("2", "1")


def test_five_brokers_have_three_controllers_and_copies(tmp_path: Path) -> None:
    found = settings(tmp_path, 5)
    assert [each["process.roles"] for each in found] == [*["broker,controller"] * 3, "broker", "broker"]
    assert {each["default.replication.factor"] for each in found} == {"3"}
    assert list(controller_nodes(5)) == [1, 2, 3]


def test_brokers_share_an_id_that_stays(tmp_path: Path) -> None:
    ids = {broker.peers.cluster_id for _ in range(2) for broker in cluster(tmp_path, 3) if broker.peers}
    assert len(ids) == 1
    assert (tmp_path / "cluster-id").read_text().strip() in ids


def test_brokers_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    made = cluster(tmp_path, 3)
    assert [each.name for each in made] == ["east/1", "east/2", "east/3"]
    assert [each.bootstrap for each in made] == ["127.0.0.1:10", "127.0.0.1:20", "127.0.0.1:30"]


def test_racks_begin_with_the_clusters_own_zone() -> None:
    assert racks("a", 3) == ["a", "b", "c"]
    assert racks("i", 3) == ["i", "a", "b"]
    assert racks("eu-1", 2) == ["eu-1", "eu-1"]


WHOLE = PartitionCopies("logs", 0, 1, frozenset({1, 2}), frozenset({1, 2}))
BEHIND = PartitionCopies("logs", 0, 1, frozenset({1, 2}), frozenset({1}))


@pytest.mark.parametrize(
    ("brokers", "partition", "missing"),
    [({1, 2}, WHOLE, None), ({1}, WHOLE, "east/1 knows 1 of 2 brokers"), ({1, 2}, BEHIND, "logs-0 lacks broker 2")],
)
def test_in_sync_is_what_every_broker_says(
    brokers: set[int],
    partition: PartitionCopies,
    missing: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = ClusterCopies(frozenset(brokers), (partition,))
    monkeypatch.setattr(kafka_cluster, "ask_copies", lambda port, timeout: said)
    assert kafka_cluster.missing_copies(cluster(tmp_path, 2)) == missing


def test_a_broker_that_ended_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ClusterCopies(frozenset({1, 2}), (BEHIND,))
    monkeypatch.setattr(kafka_cluster, "ask_copies", lambda port, timeout: said)
    with pytest.raises(Unavailable, match="east/1 has ended"):
        wait_in_sync("east", cluster(tmp_path, 2))
