"""`braid drill broker-loss` on a cluster of three brokers: the drill leaves it, an application beside it does not."""

import asyncio
from collections.abc import Iterator

import pytest

from testbed.mesh import running_mesh
from tests.e2e.test_drill import check_history, check_untouched, drill, run, under_load

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.extended, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a mesh with a cluster of three brokers, one of one broker, and a stream `logs`."""
    directory = tmp_path_factory.mktemp("drill") / ".braid"
    with running_mesh(directory, clusters=("east:3", "west"), assigners=1, registries=1) as mesh:
        asyncio.run(run(mesh.ready.endpoint, "create stream logs --lane live=3 --clusters east,west"))
        yield mesh.ready.endpoint


def test_a_lost_broker(endpoint: str) -> None:
    async def play() -> None:
        async with under_load(endpoint) as carriers:
            told = await drill(endpoint, "broker-loss --broker 2 --for 6s")
        assert told["passed"], told
        assert told["broker"] == 2
        assert told["records"]["lost"] == 0
        assert told["firstAckElsewhereMs"] > 1_000
        await check_history(endpoint, told)
        await check_untouched(endpoint, carriers)

    asyncio.run(play())


def test_a_broker_of_another_cluster_is_refused(endpoint: str) -> None:
    asyncio.run(run(endpoint, "drill broker-loss --stream logs --broker 9 --yes", 2))
