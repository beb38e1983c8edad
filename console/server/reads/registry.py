"""Reads of the registry: clusters, streams, channels, grants and approvals."""

from collections.abc import Mapping

from braid.api.registry.v1 import approval_pb2, cluster_pb2, grant_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.rpc.documents import Value, enum_text, to_document
from console.server.limits import FAST_POLL_SECONDS
from console.server.live.parts import Content, Single
from console.server.reads.listing import listing
from console.server.reads.reader import Memo, Reader
from console.server.reads.view import Params, Read

REGISTRY = "registry"


def clusters(name: str = "clusters") -> Read:
    """Every cluster, by name."""
    return listing(
        name,
        REGISTRY,
        "ListClusters",
        lambda params: api.ListClustersRequest(),
        api.ListClustersResponse,
        lambda page: page.clusters,
        seconds=FAST_POLL_SECONDS,
    )


def cluster() -> Read:
    """The cluster that the page is about."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = api.GetClusterRequest(name=params["name"])
        found = await reader.one(REGISTRY, "GetCluster", request, cluster_pb2.Cluster)
        return {"cluster": Single(to_document(found))}

    return Read(("cluster",), take, FAST_POLL_SECONDS)


def streams() -> Read:
    """Every stream, by name."""
    return listing(
        "streams",
        REGISTRY,
        "ListStreams",
        lambda params: api.ListStreamsRequest(),
        api.ListStreamsResponse,
        lambda page: page.streams,
        seconds=FAST_POLL_SECONDS,
    )


def stream() -> Read:
    """The stream that the page is about."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = api.GetStreamRequest(name=params["name"])
        found = await reader.one(REGISTRY, "GetStream", request, stream_pb2.Stream)
        return {"stream": Single(to_document(found))}

    return Read(("stream",), take, FAST_POLL_SECONDS)


def channels(cluster_param: str = "") -> Read:
    """Channels that have topics, by name; those on the cluster that a parameter names."""
    return listing(
        "channels",
        REGISTRY,
        "ListChannels",
        lambda params: api.ListChannelsRequest(cluster=params[cluster_param] if cluster_param else ""),
        api.ListChannelsResponse,
        lambda page: page.channels,
        seconds=FAST_POLL_SECONDS,
    )


def grants() -> Read:
    """Grants of roles, and whether the mesh enforces them."""
    memo = Memo()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        last: list[grant_pb2.ListGrantsResponse] = []

        def items(page: grant_pb2.ListGrantsResponse) -> list[grant_pb2.Grant]:
            last[:] = [page]
            return list(page.grants)

        found, more = await reader.pages(
            REGISTRY,
            "ListGrants",
            grant_pb2.ListGrantsRequest(),
            grant_pb2.ListGrantsResponse,
            items,
        )
        admins: list[Value] = list(last[0].configured_admins)
        return {
            "grants": memo.table(found, _grant_key, more),
            "summary": Single({"enforced": last[0].enforced, "configured_admins": admins}),
        }

    return Read(("grants", "summary"), take)


def _grant_key(grant: grant_pb2.Grant) -> str:
    spec = grant.spec
    return f"{spec.principal} {enum_text(grant_pb2.AccessRole.DESCRIPTOR, spec.role)} {spec.resource}"


def approvals() -> Read:
    """Requests that wait for a second person, and those decided lately."""
    return listing(
        "approvals",
        REGISTRY,
        "ListApprovals",
        lambda params: approval_pb2.ListApprovalsRequest(),
        approval_pb2.ListApprovalsResponse,
        lambda page: page.approvals,
        lambda each: each.id,
    )


def approval_policies() -> Read:
    """Which requests need a second person."""
    return listing(
        "policies",
        REGISTRY,
        "ListApprovalPolicies",
        lambda params: approval_pb2.ListApprovalPoliciesRequest(),
        approval_pb2.ListApprovalPoliciesResponse,
        lambda page: page.policies,
    )
