"""Valid configurations of a mesh, and how they combine with the contents of its directory."""

from pathlib import Path

import pytest

from braid.kernel.errors import Invalid, Refused
from devmesh.config import MeshConfig, Remembered, config_from_json, lay_out

WHERE = Path("/somewhere")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (MeshConfig(WHERE, clusters=("East",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("a", "a")), "--clusters"),
        (MeshConfig(WHERE, clusters=tuple(f"c{number}" for number in range(10))), "--clusters"),
        (MeshConfig(WHERE, clusters=("registry-0",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("etcd",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("etcd-2",)), "--clusters"),
        (MeshConfig(WHERE, store_members=2), "--store-members"),
        (MeshConfig(WHERE, clusters=("east:3", "east:1")), "--clusters"),
        (MeshConfig(WHERE, clusters=("east:0",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("east:",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("east:three",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("east:³",)), "--clusters"),
        (MeshConfig(WHERE, clusters=("east:6",)), "--clusters"),
        (MeshConfig(WHERE, brokers=6), "--brokers"),
        (MeshConfig(WHERE, brokers=-1), "--brokers"),
        (MeshConfig(WHERE, store="redis"), "--store"),
        (MeshConfig(WHERE, registries=0), "--registries"),
        (MeshConfig(WHERE, assigners=10), "--assigners"),
        (MeshConfig(WHERE, lagmons=-1), "--lagmons"),
        (MeshConfig(WHERE, dlqs=10), "--dlqs"),
        (MeshConfig(WHERE, port=80), "--port"),
        (MeshConfig(WHERE, port=70000), "--port"),
    ],
)
def test_nonsense_is_refused_naming_the_flag(config: MeshConfig, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        config.check()
    assert refused.value.field == field


def test_what_is_asked_travels_to_the_supervisor() -> None:
    config = MeshConfig(
        WHERE,
        ("a", "b:3"),
        "etcd",
        1,
        3,
        7500,
        Path("/ready"),
        2,
        0,
        2,
        {"num.io.threads": "2"},
        store_members=3,
        secure=True,
    )
    assert config_from_json(config.to_json()) == config
    assert config_from_json(MeshConfig(WHERE).to_json()) == MeshConfig(WHERE)


@pytest.mark.parametrize(
    ("asked", "had", "secure"),
    [(None, False, True), (None, True, True), (True, False, True), (False, True, False), (False, False, False)],
)
def test_a_mesh_is_secure_unless_this_start_asks_otherwise(asked: bool | None, had: bool, secure: bool) -> None:
    layout = lay_out(MeshConfig(WHERE, secure=asked), Remembered("sqlite", secure=had))
    assert (layout.secure, layout.was_plain) == (secure, not had)


def test_a_fresh_mesh_was_never_in_plain_text() -> None:
    layout = lay_out(MeshConfig(WHERE), Remembered())
    assert (layout.secure, layout.was_plain) == (True, False)


def test_a_fresh_directory_gets_the_defaults() -> None:
    layout = lay_out(MeshConfig(WHERE, lagmons=1, dlqs=1), Remembered())
    assert (layout.store, layout.zones, layout.fresh) == ("sqlite", {"east": "a", "west": "b"}, True)
    assert layout.instances == ("registry-0", "registry-1", "assigner-0", "assigner-1", "lagmon-0", "dlq-0")


def test_a_mesh_may_go_without_lagmon_and_dlq() -> None:
    config = MeshConfig(WHERE, lagmons=0, dlqs=0)
    config.check()
    assert lay_out(config, Remembered()).instances == ("registry-0", "registry-1", "assigner-0", "assigner-1")


def test_a_directory_keeps_what_it_has() -> None:
    remembered = Remembered("etcd", {"north": "a", "south": "b"})
    layout = lay_out(MeshConfig(WHERE), remembered)
    assert (layout.store, layout.zones, layout.fresh) == ("etcd", remembered.zones, False)


def test_a_cluster_can_be_added_and_zones_stay() -> None:
    layout = lay_out(
        MeshConfig(WHERE, clusters=("new", "west", "east")), Remembered("sqlite", {"east": "a", "west": "b"})
    )
    assert layout.zones == {"east": "a", "west": "b", "new": "c"}


@pytest.mark.parametrize("config", [MeshConfig(WHERE, store="etcd"), MeshConfig(WHERE, clusters=("west",))])
def test_a_directory_of_another_mesh_is_refused(config: MeshConfig) -> None:
    with pytest.raises(Refused, match=str(WHERE)):
        lay_out(config, Remembered("sqlite", {"east": "a", "west": "b"}))


def test_clusters_have_as_many_brokers_as_they_are_asked_to() -> None:
    layout = lay_out(MeshConfig(WHERE, clusters=("east:3", "west", "north:1"), brokers=2), Remembered())
    assert layout.brokers == {"east": 3, "west": 2, "north": 1}
    assert layout.broker_names("west") == ("west/1", "west/2")
    assert layout.broker_names("north") == ("north",)
    assert lay_out(MeshConfig(WHERE, brokers=3), Remembered()).brokers == {"east": 3, "west": 3}
    assert lay_out(MeshConfig(WHERE), Remembered()).brokers == {"east": 1, "west": 1}


THREE = Remembered("sqlite", {"east": "a", "west": "b"}, brokers={"east": 3})


@pytest.mark.parametrize(
    "config", [MeshConfig(WHERE), MeshConfig(WHERE, clusters=("east:3", "west")), MeshConfig(WHERE, ("east", "west:1"))]
)
def test_a_directory_keeps_its_brokers(config: MeshConfig) -> None:
    assert lay_out(config, THREE).brokers == {"east": 3, "west": 1}


@pytest.mark.parametrize(
    ("config", "said", "remedy"),
    [
        (MeshConfig(WHERE, brokers=3), "cluster west of the mesh in /somewhere has 1 broker, not 3", "west:1"),
        (
            MeshConfig(WHERE, ("east:2", "west")),
            "cluster east of the mesh in /somewhere has 3 brokers, not 2",
            "east:3",
        ),
        (
            MeshConfig(WHERE, ("east:1", "west")),
            "cluster east of the mesh in /somewhere has 3 brokers, not 1",
            "east:3",
        ),
    ],
)
def test_another_number_of_brokers_is_refused(config: MeshConfig, said: str, remedy: str) -> None:
    with pytest.raises(Refused) as refused:
        lay_out(config, THREE)
    assert refused.value.message == said
    assert remedy in refused.value.remedy


def test_a_cluster_can_be_added_with_brokers_of_its_own() -> None:
    layout = lay_out(MeshConfig(WHERE, clusters=("east", "west", "new:3")), THREE)
    assert layout.brokers == {"east": 3, "west": 1, "new": 3}


def test_etcd_has_one_member_or_three_and_keeps_those_it_has() -> None:
    assert lay_out(MeshConfig(WHERE), Remembered()).members == ()
    assert lay_out(MeshConfig(WHERE, store="etcd"), Remembered()).members == ("etcd",)
    three = ("etcd-0", "etcd-1", "etcd-2")
    assert lay_out(MeshConfig(WHERE, store="etcd", store_members=3), Remembered()).members == three
    remembered = Remembered("etcd", {"east": "a"}, {name: 1 for name in three})
    assert lay_out(MeshConfig(WHERE), remembered).members == three


@pytest.mark.parametrize(
    ("config", "remembered"),
    [
        (MeshConfig(WHERE, store_members=3), Remembered()),
        (MeshConfig(WHERE, store_members=3), Remembered("etcd", {"east": "a"}, {"etcd": 1})),
        (
            MeshConfig(WHERE, store_members=1),
            Remembered("etcd", {"east": "a"}, dict.fromkeys(("etcd-0", "etcd-1", "etcd-2"), 1)),
        ),
    ],
)
def test_members_that_a_store_cannot_have_are_refused(config: MeshConfig, remembered: Remembered) -> None:
    with pytest.raises(Refused, match="members"):
        lay_out(config, remembered)
