"""One mesh and one Spark session for all tests of the data source; each test has a stream of its own."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from devmesh.mesh import DevMesh
from tests.support.mesh import running_mesh
from tests.support.spark_session import running_spark


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevMesh]:
    """Two clusters, one registry, one assigner."""
    with running_mesh(tmp_path_factory.mktemp("mesh"), registries=1, assigners=1) as running:
        yield running


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores, format `braid` registered."""
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
