"""The table of the registry's RPCs, by name.

What they do is in `cluster_requests.py`, `stream_requests.py`, `grant_requests.py`, `revocation_requests.py`,
`tenant_requests.py`, `approval_requests.py`, `closing.py`, and in `watches/clusters.py`, `watches/routes.py` and
`watches/channels.py`.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

from braid.api.registry.v1 import approval_pb2, grant_pb2, revocation_pb2, tenant_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.route_pb2 import WatchChannelsRequest, WatchChannelsResponse, WatchRoutesRequest
from braid.api.registry.v1.witness_pb2 import WatchClustersRequest
from braid.kernel.errors import CorruptHistory, NotLeader, Unavailable
from braid.kernel.limits.registry.resources import WATCH_MESSAGE_BYTES_MAX
from braid.kernel.ports import Caller, DuplexServing, RpcService, UnaryHandler
from braid.rpc.methods import duplex, method_path, server_stream, service_path, unary
from services.registry.codec.views import NOTHING_KNOWN, LeaderKnowledge
from services.registry.servicer.approval_requests import ApprovalRequests
from services.registry.servicer.balance_requests import BalanceRequests
from services.registry.servicer.closing import ClosingRequests
from services.registry.servicer.cluster_requests import ClusterRequests
from services.registry.servicer.grant_requests import GrantRequests
from services.registry.servicer.past import PastRequests
from services.registry.servicer.request_context import RequestContext
from services.registry.servicer.revocation_requests import RevocationRequests
from services.registry.servicer.stream_requests import StreamRequests
from services.registry.servicer.tenant_quotas import TenantQuotas
from services.registry.servicer.tenant_requests import TenantRequests
from services.registry.watches.channels import watch_channels

NAME: Final = "registry"


def registry_rpc(context: RequestContext) -> RpcService:
    """All handlers except those of the runtime."""
    quotas = TenantQuotas(context)
    streams = StreamRequests(context, lambda: _leader_knowledge(context), quotas)

    async def watch_routes(call: DuplexServing) -> None:
        await context.term().producers.serve(call)

    async def watch_clusters(call: DuplexServing) -> None:
        await context.term().readers.serve(call)

    async def watch(request: WatchChannelsRequest, caller: Caller) -> AsyncIterator[WatchChannelsResponse]:
        async for message in watch_channels(context.replica, context.term().changed, request):
            yield message

    closing, past = ClosingRequests(context), PastRequests(context.replica)
    channels = {
        "CloseChannel": unary(api.CloseChannelRequest, closing.close),
        "ReleaseChannel": unary(api.ReleaseChannelRequest, closing.release),
        "DescribePast": unary(api.DescribePastRequest, past.describe),
        "ListPastStreams": unary(api.ListPastStreamsRequest, past.list_streams),
        "ListPastClusters": unary(api.ListPastClustersRequest, past.list_clusters),
    }
    clusters, grants = _cluster_methods(ClusterRequests(context)), _grant_methods(GrantRequests(context.replica))
    revocations = _revocation_methods(RevocationRequests(context.replica))
    tenants = _tenant_methods(TenantRequests(context, quotas))
    approvals = _approval_methods(ApprovalRequests(context.replica))
    clusters = {**clusters, "PreviewClusters": unary(api.PreviewClustersRequest, BalanceRequests(context).preview)}
    unaries = {**clusters, **_stream_methods(streams), **channels}
    unaries |= {**grants, **revocations, **tenants, **approvals}
    return RpcService(
        name=service_path(NAME),
        unary={method_path(NAME, name): entry for name, entry in unaries.items()},
        server_stream={method_path(NAME, "WatchChannels"): server_stream(WatchChannelsRequest, watch)},
        duplex={
            method_path(NAME, "WatchRoutes"): duplex(WatchRoutesRequest, watch_routes),
            method_path(NAME, "WatchClusters"): duplex(WatchClustersRequest, watch_clusters),
        },
        bytes_max={method_path(NAME, name): WATCH_MESSAGE_BYTES_MAX for name in ("WatchRoutes", "WatchClusters")},
    )


def _grant_methods(grants: GrantRequests) -> Mapping[str, tuple[type, UnaryHandler]]:
    return {
        "GrantAccess": unary(grant_pb2.GrantAccessRequest, grants.grant),
        "RevokeAccess": unary(grant_pb2.RevokeAccessRequest, grants.revoke),
        "ListGrants": unary(grant_pb2.ListGrantsRequest, grants.list),
        "CheckAccess": unary(grant_pb2.CheckAccessRequest, grants.check),
    }


def _revocation_methods(revocations: RevocationRequests) -> Mapping[str, tuple[type, UnaryHandler]]:
    return {
        "RevokeIdentity": unary(revocation_pb2.RevokeIdentityRequest, revocations.revoke),
        "LiftRevocation": unary(revocation_pb2.LiftRevocationRequest, revocations.lift),
        "ListRevocations": unary(revocation_pb2.ListRevocationsRequest, revocations.list),
    }


def _tenant_methods(tenants: TenantRequests) -> Mapping[str, tuple[type, UnaryHandler]]:
    return {
        "SetTenant": unary(tenant_pb2.SetTenantRequest, tenants.set),
        "DeleteTenant": unary(tenant_pb2.DeleteTenantRequest, tenants.delete),
        "ListTenants": unary(tenant_pb2.ListTenantsRequest, tenants.list),
    }


def _approval_methods(approvals: ApprovalRequests) -> Mapping[str, tuple[type, UnaryHandler]]:
    return {
        "SetApprovalPolicy": unary(approval_pb2.SetApprovalPolicyRequest, approvals.set_policy),
        "DeleteApprovalPolicy": unary(approval_pb2.DeleteApprovalPolicyRequest, approvals.delete_policy),
        "ListApprovalPolicies": unary(approval_pb2.ListApprovalPoliciesRequest, approvals.list_policies),
        "ListApprovals": unary(approval_pb2.ListApprovalsRequest, approvals.list_approvals),
        "DecideApproval": unary(approval_pb2.DecideApprovalRequest, approvals.decide),
        "ClaimApproval": unary(approval_pb2.ClaimApprovalRequest, approvals.claim),
    }


def _cluster_methods(clusters: ClusterRequests) -> Mapping[str, tuple[type, UnaryHandler]]:
    return {
        "GetCluster": unary(api.GetClusterRequest, clusters.get),
        "ListClusters": unary(api.ListClustersRequest, clusters.list),
        "CreateCluster": unary(api.CreateClusterRequest, clusters.create),
        "UpdateCluster": unary(api.UpdateClusterRequest, clusters.update),
        "DeleteCluster": unary(api.DeleteClusterRequest, clusters.delete),
        "CordonCluster": unary(api.CordonClusterRequest, clusters.cordon),
        "DecommissionCluster": unary(api.DecommissionClusterRequest, clusters.decommission),
    }


def _stream_methods(streams: StreamRequests) -> Mapping[str, tuple[type, UnaryHandler]]:
    return {
        "GetStream": unary(api.GetStreamRequest, streams.get),
        "ListStreams": unary(api.ListStreamsRequest, streams.list),
        "CreateStream": unary(api.CreateStreamRequest, streams.create),
        "UpdateStream": unary(api.UpdateStreamRequest, streams.update),
        "DeleteStream": unary(api.DeleteStreamRequest, streams.delete),
        "EndDrill": unary(api.EndDrillRequest, streams.end_drill),
        "MoveStream": unary(api.MoveStreamRequest, streams.move),
        "ListChannels": unary(api.ListChannelsRequest, streams.channels),
    }


def _leader_knowledge(context: RequestContext) -> LeaderKnowledge:
    """The facts that only the leader knows."""
    try:
        term = context.term()
    except (NotLeader, Unavailable, CorruptHistory):
        return NOTHING_KNOWN
    return LeaderKnowledge(term.reconciler.holders, term.copies.progress)
