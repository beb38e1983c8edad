"""One Spark session for all tests of the data source; each test has a stream of its own."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from devmesh.mesh import DevMesh
from tests.support.grounds import wait_healthy
from tests.support.spark_session import running_spark


@pytest.fixture
def local(two_clusters: DevMesh) -> DevMesh:
    """Two clusters, one registry, one assigner; all healthy."""
    wait_healthy(two_clusters)
    return two_clusters


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores, format `braid` registered."""
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
