"""Brokers and meshes that several modules of tests stand on: started with the first test that uses one, ended with the
last, so that no idle one takes a core's time from the rest of the session.

`tests/integration/conftest.py` has the fixtures; it puts tests of one ground next to each other.
"""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, TypeVar

import pytest

import braid
from braid.api.registry.v1.cluster_pb2 import ClusterHealth
from braid.api.registry.v1.registry_service_pb2 import ListClustersRequest, ListClustersResponse
from devmesh.mesh import DevMesh
from testbed.patience import until

GROUNDS: Final = ("broker", "two_clusters", "one_cluster", "whole_mesh", "three_brokers", "stock_brokers")  # fixtures
HEALTHY_SECONDS: Final = 150.0  # one that tests killed four times in five minutes is held back for a while

T = TypeVar("T")


class Grounds:
    """The open grounds of tests, by the name of their fixture."""

    def __init__(self) -> None:
        self._open: dict[str, ExitStack] = {}
        self._ended: set[str] = set()

    def enter(self, name: str, made: AbstractContextManager[T]) -> T:
        """Starts one."""
        stack = ExitStack()
        entered = stack.enter_context(made)
        self._open[name] = stack
        return entered

    def leave(self, still: Collection[str] = ()) -> None:
        """Ends those whose fixtures are not named."""
        for name in [name for name in self._open if name not in still]:
            self._ended.add(name)
            self._open.pop(name).close()

    def refuse_ended(self, needed: Collection[str]) -> None:
        """Fails for a test that needs a ground which has ended: pytest would hand it the dead one of before."""
        ended = sorted(self._ended.intersection(needed))
        assert not ended, (
            f"{', '.join(ended)} ended before this test began, because the test before it did not need it: tests of a "
            "ground follow each other, so let a file stand on one ground alone, or make this one a fixture of its own"
        )


def together(items: Sequence[pytest.Item], grounds: Sequence[str]) -> list[pytest.Item]:
    """The same tests, those of one ground next to each other, else in their order; those without one come last."""
    return sorted(items, key=lambda item: _rank(fixtures_of(item), grounds))


def fixtures_of(item: pytest.Item | None) -> list[str]:
    """The fixtures that a test needs, directly or not, without those that its own file makes: they are no grounds."""
    own = vars(item.module) if isinstance(item, pytest.Function) else {}
    return [name for name in getattr(item, "fixturenames", ()) if name not in own]


def _rank(needed: Collection[str], grounds: Sequence[str]) -> int:
    return next((rank for rank, ground in enumerate(grounds) if ground in needed), len(grounds))


def wait_healthy(local: DevMesh) -> None:
    """Waits until all clusters of a mesh take traffic: the test before may have killed one."""

    async def all_of_them() -> None:
        async with braid.connect(local.ready.endpoint, client_id="tests") as mesh:

            async def healthy() -> bool:
                registry = mesh.service("registry")
                answer = await registry.unary("ListClusters", ListClustersRequest(), ListClustersResponse)
                found = [each.status.health for each in answer.clusters]
                return found == [ClusterHealth.CLUSTER_HEALTH_HEALTHY] * len(local.ready.clusters)

            await until(healthy, "every cluster is healthy", HEALTHY_SECONDS, poll=0.2)

    asyncio.run(all_of_them())
