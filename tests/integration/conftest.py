"""Fixtures of this tier: a broker; meshes of two clusters, of one cluster with a follower, of every service; meshes
with clusters of three brokers.

A test may kill parts of them, and brings them back itself, whatever happens; the next begins when all is healthy.
Streams, groups and topics have names of their own, a test's or a module's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import STOCK_SESSION, running_broker
from testbed.mesh import preloaded_meshes, running_mesh
from tests.support.grounds import GROUNDS, Grounds, fixtures_of, together

TIER: Final = Path(__file__).parent
open_grounds: Final = Grounds()


@pytest.fixture(scope="session", autouse=True)
def _preloaded() -> Iterator[None]:
    """Meshes start from a process that has loaded what they run."""
    with preloaded_meshes():
        yield


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> KafkaBroker:
    """A running broker."""
    return open_grounds.enter("broker", running_broker("east", tmp_path_factory.mktemp("broker")))


@pytest.fixture(scope="session")
def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> DevMesh:
    """Two clusters, one registry, one assigner."""
    directory = tmp_path_factory.mktemp("two")
    return open_grounds.enter("two_clusters", running_mesh(directory, registries=1, assigners=1))


@pytest.fixture
def west_alone(tmp_path: Path) -> Iterator[DevMesh]:
    """One cluster, one registry, one assigner, of the test's own: it need not be left as it was."""
    with running_mesh(tmp_path / "mesh", clusters=("west",), registries=1, assigners=1) as mesh:
        yield mesh


@pytest.fixture
def north(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A cluster's broker that no mesh knows yet."""
    with running_broker("north", tmp_path) as broker:
        yield broker


@pytest.fixture(scope="session")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> DevMesh:
    """One cluster, one registry, two assigners."""
    directory = tmp_path_factory.mktemp("one")
    return open_grounds.enter("one_cluster", running_mesh(directory, clusters=("east",), registries=1, assigners=2))


@pytest.fixture(scope="session")
def whole_mesh_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `whole_mesh` keeps everything."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="session")
def whole_mesh(whole_mesh_directory: Path) -> DevMesh:
    """Two clusters, one registry, one assigner, two lag monitors, two dlq replicas."""
    made = running_mesh(whole_mesh_directory, registries=1, assigners=1, lagmons=2, dlqs=2)
    return open_grounds.enter("whole_mesh", made)


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> DevMesh:
    """`east` of three brokers beside `west` of one, with broker sessions of 3 s; one replica of each service."""
    directory = tmp_path_factory.mktemp("three")
    made = running_mesh(directory, clusters=("east:3", "west"), registries=1, assigners=1, lagmons=1, dlqs=1)
    return open_grounds.enter("three_brokers", made)


@pytest.fixture(scope="session")
def stock_brokers(tmp_path_factory: pytest.TempPathFactory) -> DevMesh:
    """`east` and `west` of three brokers each, with Kafka's own broker sessions; one registry, one assigner."""
    directory, clusters = tmp_path_factory.mktemp("stock"), ("east:3", "west:3")
    made = running_mesh(directory, clusters=clusters, registries=1, assigners=1, kafka_settings=STOCK_SESSION)
    return open_grounds.enter("stock_brokers", made)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts tests of one ground next to each other."""
    mine = [number for number, item in enumerate(items) if TIER in item.path.parents]
    for number, item in zip(mine, together([items[number] for number in mine], GROUNDS), strict=True):
        items[number] = item


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails at once where a test would stand on what has ended."""
    open_grounds.refuse_ended(fixtures_of(item))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Ends what no further test stands on, once the test's own fixtures have ended."""
    open_grounds.leave(fixtures_of(nextitem))


def pytest_sessionfinish() -> None:
    """Ends what is left where a teardown failed."""
    open_grounds.leave()
