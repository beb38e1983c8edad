"""A mesh's clusters in its registry, and whether registry and assigner serve: the part of a start that speaks gRPC."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterHealth, ClusterSpec
from braid.api.registry.v1.registry_service_pb2 import (
    CreateClusterRequest,
    ListClustersRequest,
    ListClustersResponse,
    UpdateClusterRequest,
)
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.kernel.errors import Conflict, Unavailable
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from devmesh.limits import DEV_POLL_SECONDS, DEV_STEP_SECONDS

PRINCIPAL = "braid-dev"


class Address(NamedTuple):
    """Where a cluster of this mesh is."""

    bootstrap: str
    zone: str


class Step(NamedTuple):
    """One call that brings the registry up to date; without an etag it creates the cluster."""

    name: str
    spec: ClusterSpec
    etag: str


def plan_steps(wanted: Mapping[str, Address], known: Sequence[Cluster]) -> list[Step]:
    """Plans the calls to the registry: clusters it does not know, and addresses that changed. Others are left alone."""
    found = {cluster.name: cluster for cluster in known}
    steps = []
    for name, address in wanted.items():
        spec = ClusterSpec(zone=address.zone)
        if name in found:
            spec.CopyFrom(found[name].spec)
            if spec.bootstrap == address.bootstrap:
                continue
        spec.bootstrap = address.bootstrap
        steps.append(Step(name, spec, found[name].etag if name in found else ""))
    return steps


async def tell_all(
    wanted: Mapping[str, Address],
    known: Callable[[], Awaitable[Sequence[Cluster]]],
    tell: Callable[[Step], Awaitable[None]],
    in_time: Callable[[], bool],
) -> list[str]:
    """Takes the steps that are due, and plans anew where a cluster changed after it was read; returns whom it told.

    The registry itself notes what it learns of a cluster, its health and its mark, at any time.

    Raises:
        Conflict: that went on until it was not in time any more.
    """
    told: dict[str, None] = {}
    while True:
        try:
            for step in plan_steps(wanted, await known()):
                await tell(step)
                told[step.name] = None
        except Conflict:
            if in_time():
                continue
            raise
        return list(told)


class Registration:
    """The mesh's own client of its services.

    Args:
        addresses: Of replicas.
        tls: What it shows them; None where they speak plain text.
    """

    def __init__(self, addresses: Sequence[str], tls: Tls | None = None) -> None:
        """Raises `Invalid` when a file of `tls` cannot be used."""
        host = system_host()
        self._clock = host.clock
        transport = GrpcTransport(TlsFiles(tls) if tls is not None else None)
        self._directory = Directory(transport, host, addresses)
        self._registry = ServiceClient(self._directory, "registry", host, principal=PRINCIPAL)

    async def wait_leaders(self, services: Sequence[str]) -> None:
        """Waits until each service is led. Raises `Unavailable` naming those that are not."""

        async def leaderless() -> str:
            await self._directory.refresh()
            return ", ".join(name for name in services if not self._directory.leader(name))

        await self._until_empty(leaderless, "no leader of")

    async def tell(self, wanted: Mapping[str, Address]) -> list[str]:
        """Makes the registry know where the clusters are, which must answer.

        Args:
            wanted: By name.

        Returns:
            Names of those it had to be told about.

        Raises:
            Conflict: a cluster changed again and again between the registry's answer and the request.
        """
        deadline = self._clock.elapsed() + DEV_STEP_SECONDS
        return await tell_all(wanted, self._clusters, self._tell, lambda: self._clock.elapsed() < deadline)

    async def wait_healthy(self, names: Sequence[str]) -> None:
        """Waits until the registry calls the clusters healthy. Raises `Unavailable` with what it says instead."""

        async def unhealthy() -> str:
            found = {cluster.name: cluster.status for cluster in await self._clusters()}
            return ", ".join(
                f"{name} ({found[name].health_reason or 'no probe yet'})"
                for name in names
                if found[name].health != ClusterHealth.CLUSTER_HEALTH_HEALTHY
            )

        await self._until_empty(unhealthy, "the registry finds not healthy:")

    async def close(self) -> None:
        """Closes the connections."""
        await self._directory.close()

    async def _tell(self, step: Step) -> None:
        if step.etag:
            update = UpdateClusterRequest(name=step.name, spec=step.spec, etag=step.etag)
            await self._registry.unary("UpdateCluster", update, Cluster, timeout_seconds=DEV_STEP_SECONDS)
        else:
            creation = CreateClusterRequest(name=step.name, spec=step.spec)
            await self._registry.unary("CreateCluster", creation, Cluster, timeout_seconds=DEV_STEP_SECONDS)

    async def _clusters(self) -> list[Cluster]:
        clusters: list[Cluster] = []
        request = ListClustersRequest(page_size=PAGE_SIZE_MAX)
        while True:
            answer = await self._registry.unary("ListClusters", request, ListClustersResponse)
            clusters.extend(answer.clusters)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return clusters

    async def _until_empty(self, ask: Callable[[], Awaitable[str]], complaint: str) -> None:
        """Asks again until nothing is missing; what is said last stands in the error."""
        deadline = self._clock.elapsed() + DEV_STEP_SECONDS
        while True:
            try:
                missing = await ask()
            except Unavailable as error:
                missing = f"any service ({error.message})"
            if not missing:
                return
            if self._clock.elapsed() > deadline:
                raise Unavailable(f"{complaint} {missing} after {DEV_STEP_SECONDS:.0f} s")
            await self._clock.sleep(DEV_POLL_SECONDS)
