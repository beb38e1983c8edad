"""Lists everything of one kind in the mesh, page by page."""

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2, tenant_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.cli.core.session import Session
from braid.kernel.limits.names import PAGE_SIZE_MAX


async def all_channels(session: Session, stream: str = "", cluster: str = "") -> list[stream_pb2.Channel]:
    """Channels that still have topics."""
    return await session.pages(
        "registry",
        "ListChannels",
        lambda token: registry_api.ListChannelsRequest(
            stream=stream, cluster=cluster, page_size=PAGE_SIZE_MAX, page_token=token
        ),
        registry_api.ListChannelsResponse,
        lambda page: page.channels,
    )


async def all_streams(session: Session) -> list[stream_pb2.Stream]:
    """Every stream in the mesh."""
    return await session.pages(
        "registry",
        "ListStreams",
        lambda token: registry_api.ListStreamsRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        registry_api.ListStreamsResponse,
        lambda page: page.streams,
    )


async def all_clusters(session: Session) -> list[cluster_pb2.Cluster]:
    """Every cluster in the mesh."""
    return await session.pages(
        "registry",
        "ListClusters",
        lambda token: registry_api.ListClustersRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        registry_api.ListClustersResponse,
        lambda page: page.clusters,
    )


async def all_groups(session: Session, stream: str = "") -> list[group_pb2.Group]:
    """Every group in the mesh; those of one stream, for which a right on that stream is enough."""
    return await session.pages(
        "assigner",
        "ListGroups",
        lambda token: assigner_api.ListGroupsRequest(stream=stream, page_size=PAGE_SIZE_MAX, page_token=token),
        assigner_api.ListGroupsResponse,
        lambda page: page.groups,
    )


async def all_tenants(session: Session, name: str = "") -> list[tenant_pb2.Tenant]:
    """All tenants, or the one of a name, as the registry knows them."""
    return await session.pages(
        "registry",
        "ListTenants",
        lambda token: tenant_pb2.ListTenantsRequest(name=name, page_size=PAGE_SIZE_MAX, page_token=token),
        tenant_pb2.ListTenantsResponse,
        lambda page: page.tenants,
    )
