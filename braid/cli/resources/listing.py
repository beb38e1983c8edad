"""Objects of the mesh as items to show: per type one function reads them, one builds a row. Changes nothing."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.cli.core.documents import Document, Value, enum_text, to_document
from braid.cli.core.kinds import (
    ALERT,
    APPROVAL,
    APPROVAL_POLICY,
    CHANNEL,
    CLUSTER,
    DEADLETTER,
    GRANT,
    GROUP,
    LEASE,
    MEMBER,
    PATHWAY,
    REPLAY,
    REVOCATION,
    STREAM,
    TENANT,
    Kind,
    Scope,
)
from braid.cli.core.lists import all_channels, all_clusters, all_groups, all_streams
from braid.cli.core.output import API_VERSION, Item
from braid.cli.core.session import Session
from braid.cli.core.text import offsets_text
from braid.cli.resources.access import approvals, grants, revocations, tenants
from braid.cli.resources.alerts import listing as alerts
from braid.cli.resources.clusters.loads import free_text, taken_text
from braid.cli.resources.dlq import dead_letters, replays
from braid.cli.resources.group_streams import DELETED_STREAMS, deleted_streams
from braid.cli.resources.pathways import listing as pathways
from braid.cli.resources.reassignments import copies_text
from braid.kernel.ids import epoch_text
from braid.kernel.limits.names import PAGE_SIZE_MAX

_ACTIVE: Final = stream_pb2.CHANNEL_STATE_ACTIVE


async def list_items(session: Session, kind: Kind, scope: Scope) -> list[Item]:
    """All objects of a type within a scope, in the mesh's order."""
    return [item for item in await _READERS[kind](session, scope) if named(kind, item, scope.name)]


_DELAY_SHOWN_MIN: Final = 0.01  # seconds a second: below it, a processor is simply shared


def named(kind: Kind, item: Item, name: str) -> bool:
    """Whether a name selects the item: its own, or for channels and leases the name of what contains them."""
    if not name or item.name == name:
        return True
    if kind in (CHANNEL, LEASE, DEADLETTER):
        return item.name.startswith(f"{name}/")
    return kind is MEMBER and item.document.get("client_id") == name


def stream_item(stream: stream_pb2.Stream) -> Item:
    """The row of a stream."""
    lanes = [f"{name}={lane.partitions}" for name, lane in sorted(stream.spec.lanes.items()) if name != "dlq"]
    carrying = sorted({each.cluster for each in stream.status.channels if each.state == _ACTIVE})
    cells = (
        ",".join(lanes),
        ",".join(carrying),
        stream_state(stream),
        ",".join(stream.spec.clusters) or "any",
        enum_text(stream_pb2.FailoverMode.DESCRIPTOR, stream.spec.failover),
        str(stream.spec.replication_factor or "default"),
        f"{stream.spec.retention_hours}h",
        stream.status.blocked_reason,
    )
    return Item(stream.name, f"stream/{stream.name}", cells, stream.create_time_ms, manifest("Stream", stream))


def stream_state(stream: stream_pb2.Stream) -> str:
    """A stream's state in one word: the most urgent one."""
    channels = stream.status.channels
    routed = {each.lane for each in channels if each.state == _ACTIVE}
    if any(lane not in routed for lane in stream.spec.lanes):
        return "NO ROUTE"
    if stream.status.blocked_reason:
        return "BLOCKED"
    if halted(stream):
        return "HALTED"
    if any(waits_for_a_person(each) for each in channels):
        return "LOST"
    if any(each.stranded for each in channels):
        return "STRANDED"
    return "DRAINING" if any(each.state == stream_pb2.CHANNEL_STATE_DRAINING for each in channels) else "OK"


def channel_item(channel: stream_pb2.Channel) -> Item:
    """The row of a channel."""
    state = enum_text(stream_pb2.ChannelState.DESCRIPTOR, channel.state).upper()
    cells = (
        channel.cluster,
        "STRANDED" if channel.stranded else state,
        str(channel.partitions),
        waits_for(channel),
        f"{channel.weight:g}",
        channel.zone or "-",
        channel.topic,
    )
    return Item(channel.name, f"channel/{channel.name}", cells, channel.state_since_ms, _document("Channel", channel))


def waits_for(channel: stream_pb2.Channel) -> str:
    """The next step of a draining channel, and what holds it."""
    if waits_for_a_person(channel):
        return f"a person: {offsets_text(channel.lost)} lost; braid close channel {channel.name} --dry-run"
    if channel.stranded:
        return f"cluster {channel.cluster}"
    if not channel.drain_step:
        return _order_text(channel) or copies_text(channel)
    step = enum_text(stream_pb2.DrainStep.DESCRIPTOR, channel.drain_step).replace("_", " ")
    return f"{step} {', '.join(channel.drain_holders)}".strip()


def _order_text(channel: stream_pb2.Channel) -> str:
    return f"the order: {', '.join(channel.waits_for)} to be drained first" if channel.waits_for else ""


def waits_for_a_person(channel: stream_pb2.Channel) -> bool:
    """Whether a drain cannot end by itself because its cluster lost some of its records."""
    return bool(channel.lost and channel.drain_step)


def halted(stream: stream_pb2.Stream) -> list[stream_pb2.Channel]:
    """Channels of an ordered stream that are not consumed while an older one is stranded, or waits for an operator."""
    stuck = {each.name for each in stream.status.channels if each.stranded or waits_for_a_person(each)}
    return [each for each in stream.status.channels if stuck.intersection(each.waits_for)]


def cluster_item(cluster: cluster_pb2.Cluster) -> Item:
    """The row of a cluster."""
    status = cluster.status
    closed = "cordoned" if status.cordoned else ""
    if status.HasField("decommission"):
        closed = enum_text(cluster_pb2.DecommissionState.DESCRIPTOR, status.decommission.state)
    health = enum_text(cluster_pb2.ClusterHealth.DESCRIPTOR, cluster.status.health).upper()
    cells = (
        cluster.spec.zone,
        f"{health} ({closed})" if closed else health,
        cluster.spec.bootstrap,
        str(cluster.status.active_channels),
        str(cluster.status.draining_channels),
        str(cluster.spec.capacity or "any"),
        free_text(status.load),
        taken_text(status.load),
        cluster.status.kafka_cluster_id,
        cluster.spec.security_profile,
        cluster.status.health_reason,
    )
    return Item(cluster.name, f"cluster/{cluster.name}", cells, cluster.create_time_ms, manifest("Cluster", cluster))


def group_item(group: group_pb2.Group, deleted: Collection[str] | None = None) -> Item:
    """The row of a group. `deleted` holds the deleted streams of all groups; None if unknown."""
    status = group.status
    gone: list[Value] = [stream for stream in group.spec.streams if stream in (deleted or ())]
    cells = (
        ",".join(group.spec.streams),
        str(status.members),
        str(status.leases),
        str(status.free_leases),
        _group_state(group, without_stream=bool(gone) and len(gone) == len(group.spec.streams)),
        ",".join(f"{name}={share}" for name, share in sorted(group.spec.lanes.items())) or "all",
        enum_text(group_pb2.Ownership.DESCRIPTOR, group.spec.ownership),
        f"{group.spec.lease_ms}ms",
        str(group.scaling.desired.members) if group.scaling.HasField("desired") else "-",
    )
    document = _document("Group", group)
    if deleted is not None:
        document[DELETED_STREAMS] = gone
    return Item(group.name, f"group/{group.name}", cells, group.create_time_ms, document)


def _group_state(group: group_pb2.Group, *, without_stream: bool) -> str:
    """A group's state in one word: the most urgent one."""
    if without_stream:
        return "NO STREAM"
    if group.rules.HasField("freeze"):
        return "FROZEN"
    if group.status.members:
        return "LIVE"
    return "EXPIRED" if group.status.idle_expired else "IDLE"


def member_item(member: group_pb2.Member) -> Item:
    """The row of a member."""
    cells = (
        member.group,
        member.client_id,
        member.zone,
        member_state(member),
        str(member.leases),
        member.peer,
        _capacity(member),
        _cpu(member.usage) if member.HasField("usage") else "",
        _used(member.usage.wait_per_s, member.usage.handlers) if member.HasField("usage") else "",
        "; ".join(f"{each.lane}: {each.reason}" for each in member.stopped),
    )
    return Item(member.id, f"member/{member.id}", cells, member.join_time_ms, _document("Member", member))


def _capacity(member: group_pb2.Member) -> str:
    """A member's capacity as it was declared or set, and the part of it that counts while it is slow."""
    said = f"{member.capacity:g}"
    return f"{said}, {member.slow.part:.0%} counts" if member.HasField("slow") else said


def _cpu(usage: group_pb2.MemberUsage) -> str:
    """The processors that a member's handlers use, and for what part of each second others delay them."""
    used = _used(usage.cpu_per_s, usage.cores)
    return f"{used}, {usage.delay_per_s:.2g} delayed" if usage.delay_per_s >= _DELAY_SHOWN_MIN else used


def _used(part: float, whole: float) -> str:
    return f"{part:.2g} of {whole:g}"


def member_state(member: group_pb2.Member) -> str:
    """A member's state in one word: away, being emptied, stopped with a lane, or at work."""
    here = member.state != group_pb2.MEMBER_STATE_AWAITED
    if member.drain and here:
        return enum_text(rules_pb2.DrainState.DESCRIPTOR, member.drain).upper()
    if member.stopped and here:
        return "STOPPED"
    if member.HasField("slow") and here:
        return "SLOW"
    return enum_text(group_pb2.MemberState.DESCRIPTOR, member.state).upper()


def lease_item(lease: group_pb2.Lease) -> Item:
    """The row of a lease."""
    cells = (
        lease.group,
        lease.cluster,
        lease.member_client_id,
        enum_text(group_pb2.LeaseState.DESCRIPTOR, lease.state).upper(),
        epoch_text(lease.epoch),
        lease.member,
        lease.topic,
        lease.rule,
    )
    return Item(lease.name, f"lease/{lease.name}", cells, lease.since_ms, _document("Lease", lease))


def manifest(kind: str, message: Message) -> Document:
    """A declared object as its manifest, with the fields that the mesh adds: status, and metadata beside the name."""
    fields = to_document(message)
    metadata: Document = {name: fields[name] for name in ("name", "etag", "create_time_ms")}
    status = fields.get("status", {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": fields["spec"], "status": status}


def declaration(document: Document) -> Document:
    """A document as `apply` takes it: a manifest without the fields that the mesh added, other documents unchanged."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "spec" not in document:
        return document
    own: Document = {"metadata": {"name": metadata["name"]}}
    return {name: (document | own)[name] for name in ("apiVersion", "kind", "metadata", "spec")}


def _document(kind: str, message: Message) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, **to_document(message)}


async def _streams(session: Session, scope: Scope) -> Sequence[Item]:
    return [stream_item(each) for each in await all_streams(session)]


async def _channels(session: Session, scope: Scope) -> Sequence[Item]:
    return [channel_item(each) for each in await all_channels(session, scope.stream)]


async def _clusters(session: Session, scope: Scope) -> Sequence[Item]:
    return [cluster_item(each) for each in await all_clusters(session)]


async def _groups(session: Session, scope: Scope) -> Sequence[Item]:
    groups = await all_groups(session)
    deleted = await deleted_streams(session, groups)
    return [group_item(each, deleted) for each in groups if not scope.stream or scope.stream in each.spec.streams]


async def _members(session: Session, scope: Scope) -> Sequence[Item]:
    members = await session.pages(
        "assigner",
        "ListMembers",
        lambda token: assigner_api.ListMembersRequest(group=scope.group, page_size=PAGE_SIZE_MAX, page_token=token),
        assigner_api.ListMembersResponse,
        lambda page: page.members,
    )
    return [member_item(each) for each in members]


async def _leases(session: Session, scope: Scope) -> Sequence[Item]:
    leases = await session.pages(
        "assigner",
        "ListLeases",
        lambda token: assigner_api.ListLeasesRequest(
            group=scope.group, stream=scope.stream, page_size=PAGE_SIZE_MAX, page_token=token
        ),
        assigner_api.ListLeasesResponse,
        lambda page: page.leases,
    )
    return [lease_item(each) for each in leases]


_READERS: Final[Mapping[Kind, Callable[[Session, Scope], Awaitable[Sequence[Item]]]]] = {
    STREAM: _streams,
    CHANNEL: _channels,
    CLUSTER: _clusters,
    GROUP: _groups,
    MEMBER: _members,
    LEASE: _leases,
    DEADLETTER: dead_letters.list_letters,
    REPLAY: replays.list_replays,
    GRANT: grants.list_grants,
    REVOCATION: revocations.list_revocations,
    TENANT: tenants.list_tenants,
    APPROVAL: approvals.list_approvals,
    APPROVAL_POLICY: approvals.list_policies,
    ALERT: alerts.list_alerts,
    PATHWAY: pathways.list_pathways,
}
