"""Every list in a request has a bound of its own or the general one, and the table that says so knows every list."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from google.protobuf.descriptor import Descriptor

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.dlq.v1 import dlq_service_pb2 as dlq
from braid.api.keda import externalscaler_pb2 as keda
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.api.registry.v1 import registry_service_pb2 as registry

GENERAL: Final = "rpc.REQUEST_ITEMS_MAX"  # work in proportion to the list, and nothing is made of its items
BYTES: Final = "assigner.leases.LEASE_MESSAGE_BYTES_MAX"  # of a message, whatever it lists
BOUNDS: Final[Mapping[str, str]] = {
    "CreateStream.spec.lanes": "names.LANES_MAX",
    "CreateStream.spec.clusters": "names.STREAM_CLUSTERS_MAX",
    "CreateStream.spec.topic_config": GENERAL,
    "CreateStream.spec.lag_target": "lagmon.alerts.LAG_TARGETS_MAX",
    "UpdateStream.spec.lanes": "names.LANES_MAX",
    "UpdateStream.spec.clusters": "names.STREAM_CLUSTERS_MAX",
    "UpdateStream.spec.topic_config": GENERAL,
    "UpdateStream.spec.lag_target": "lagmon.alerts.LAG_TARGETS_MAX",
    "MoveStream.lanes": "names.LANES_MAX",
    "MoveStream.spread": "names.STREAM_CLUSTERS_MAX",
    "PreviewClusters.without": "registry.balancing.BALANCE_PREVIEW_CLUSTERS",
    "PreviewClusters.new_clusters": "registry.balancing.BALANCE_PREVIEW_CLUSTERS",
    "CloseChannel.accept_loss": GENERAL,
    "WatchChannels.capabilities": GENERAL,
    "WatchRoutes.hello.capabilities": GENERAL,
    "WatchRoutes.hello.left": "registry.health.UNPLACED_MAX",
    "WatchRoutes.hello.left.next_offsets": "names.PARTITIONS_MAX",
    "WatchRoutes.hello.resumed": "registry.health.UNPLACED_MAX",
    "WatchRoutes.hello.resumed.resumptions": "registry.health.RESUMPTIONS_TOLD_MAX",
    "WatchRoutes.hello.resumed.resumptions.stretches": "registry.health.STRETCHES_MAX",
    "WatchRoutes.hello.lanes": "names.LANES_MAX",
    "WatchRoutes.channel_left.next_offsets": "names.PARTITIONS_MAX",
    "WatchRoutes.log_resumed.resumptions": "registry.health.RESUMPTIONS_TOLD_MAX",
    "WatchRoutes.log_resumed.resumptions.stretches": "registry.health.STRETCHES_MAX",
    "WatchClusters.hello.capabilities": GENERAL,
    "WatchClusters.hello.clusters.names": "registry.health.CLUSTERS_READ_MAX",
    "WatchClusters.clusters.names": "registry.health.CLUSTERS_READ_MAX",
    "ListEndpoints.silent": GENERAL,
    "ReadMany.parts": "rpc.READ_PARTS_MAX",
    "ReadLagColumns.versions": GENERAL,
    "ListLag.filter.groups": "names.PAGE_SIZE_MAX",
    "WatchLag.filter.groups": "names.PAGE_SIZE_MAX",
    "ListGroups.names": "names.PAGE_SIZE_MAX",
    "ReportPathways.sent_streams": "lagmon.pathways.PATHWAY_REPORT_EDGES_MAX",
    "ReportPathways.received_streams": "lagmon.pathways.PATHWAY_REPORT_EDGES_MAX",
    "ReportPathways.groups": "lagmon.pathways.PATHWAY_REPORT_EDGES_MAX",
    "ReportPathways.sent": "lagmon.pathways.PATHWAY_REPORT_EDGES_MAX",
    "ReportPathways.sent.full.bins": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.sent.full.counts": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.sent.edge.bins": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.sent.edge.counts": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.received": "lagmon.pathways.PATHWAY_REPORT_EDGES_MAX",
    "ReportPathways.received.full.bins": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.received.full.counts": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.received.edge.bins": "lagmon.pathways.SKETCH_BINS_MAX",
    "ReportPathways.received.edge.counts": "lagmon.pathways.SKETCH_BINS_MAX",
    "SetTenant.spec.principals": "access.rights.TENANT_PRINCIPALS_MAX",
    "SetTenant.spec.kafka_users": "access.rights.TENANT_KAFKA_USERS_MAX",
    "SetTenant.spec.kafka_users.clusters": "names.STREAM_CLUSTERS_MAX",
    "SetApprovalPolicy.spec.verbs": GENERAL,
    "ClaimApproval.request.verbs": GENERAL,
    "ClaimApproval.request.resources": GENERAL,
    "ClaimApproval.request.needs": GENERAL,
    "CreateGroup.spec.streams": "assigner.leases.GROUP_STREAMS_MAX",
    "CreateGroup.spec.lanes": "names.LANES_MAX",
    "UpdateGroup.spec.streams": "assigner.leases.GROUP_STREAMS_MAX",
    "UpdateGroup.spec.lanes": "names.LANES_MAX",
    "PreviewPlacement.leaving_members": GENERAL,
    "PreviewPlacement.lost_clusters": GENERAL,
    "PreviewPlacement.capacities": GENERAL,
    "SetResponses.policies": "assigner.responses.RESPONSE_POLICIES_MAX",
    "ResetProgress.offsets": GENERAL,
    "Join.hello.capabilities": GENERAL,
    "Join.hello.spec.streams": "assigner.leases.GROUP_STREAMS_MAX",
    "Join.hello.spec.lanes": "names.LANES_MAX",
    "Join.hello.held": BYTES,
    "Join.hello.stopped": BYTES,
    "Join.hello.splits": BYTES,
    "Join.hello.found": BYTES,
    "Join.hello.found.findings": BYTES,
    "Join.heartbeat.loads": BYTES,
    "Join.heartbeat.unreachable_clusters": BYTES,
    "Join.acknowledge.released": BYTES,
    "Join.stopped.lanes": BYTES,
    "Join.splits.leases": BYTES,
    "Join.found.findings": BYTES,
    "IsActive.scalerMetadata": GENERAL,
    "StreamIsActive.scalerMetadata": GENERAL,
    "GetMetricSpec.scalerMetadata": GENERAL,
    "GetMetrics.scaledObjectRef.scalerMetadata": GENERAL,
    "Beat.tickets": "assigner.leases.BEAT_MEMBERS_MAX",
    "Beat.news": "assigner.leases.BEAT_MEMBERS_MAX",
    "Beat.news.loads": BYTES,
    "Beat.news.unreachable.clusters": BYTES,
}


def lists(message: Descriptor, path: str, within: frozenset[Descriptor] = frozenset()) -> Iterator[str]:
    """The paths of all lists and maps of a message, those of the messages in it included."""
    for field in message.fields:
        where, inner = f"{path}.{field.name}", field.message_type
        if field.is_repeated:
            yield where
        if inner is not None and inner not in within and not inner.GetOptions().map_entry:
            yield from lists(inner, where, within | {inner})


def test_each_list_of_each_request_has_its_row() -> None:
    found: set[str] = set()
    for service in (registry, assigner, dlq, lagmon, keda):
        for described in service.DESCRIPTOR.services_by_name.values():
            for method in described.methods:
                found |= {*lists(method.input_type, method.name)}
    assert found == {*BOUNDS}, "say which bound of `braid.kernel.limits` holds for it, after a test that it does"


def test_each_bound_of_the_table_exists() -> None:
    for bound in {*BOUNDS.values()}:
        module, _, name = bound.rpartition(".")
        assert getattr(import_module(f"braid.kernel.limits.{module}"), name) > 0
