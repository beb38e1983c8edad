"""The work of `create` and `delete`: sends one object's declaration or deletion to the service that owns it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import approval_pb2, cluster_pb2, stream_pb2, tenant_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.cli.core.documents import Value, from_document
from braid.cli.core.kinds import APPROVAL_POLICY, CLUSTER, GROUP, STREAM, TENANT, Kind, Scope
from braid.cli.core.lists import all_streams
from braid.cli.core.output import Format, Item, render_document
from braid.cli.core.session import Session, missing_among
from braid.cli.manifests.cluster_warnings import cluster_warnings
from braid.cli.manifests.stream_warnings import stream_warnings
from braid.cli.resources.clusters.losses import stream_losses
from braid.cli.resources.listing import cluster_item, list_items, stream_item
from braid.kernel.errors import Invalid, NotFound

_HOW_TO_WATCH: Final = {STREAM: "braid get channels {name} -w", CLUSTER: "braid get clusters {name} -w"}


def stream_spec(
    lanes: Sequence[str], clusters: str, topic_config: Sequence[str], fields: Mapping[str, Value]
) -> stream_pb2.StreamSpec:
    """Builds a stream's declaration from flags.

    Args:
        lanes: Each `name=partitions`.
        clusters: Names separated by commas.
        topic_config: Each `name=value`.
        fields: Further fields of the spec; the mesh fills in empty ones.

    Raises:
        Invalid: a flag is malformed.
    """
    if not lanes:
        raise Invalid("a stream needs a lane", field="--lane", remedy="for example --lane live=4")
    spec = stream_pb2.StreamSpec(clusters=_listed(clusters))
    for name, partitions in _pairs(lanes, "--lane", "live=4").items():
        if not partitions.isdecimal() or int(partitions) > 0x7FFFFFFF:
            raise Invalid(f"{partitions!r} is not a number of partitions", field="--lane", remedy="for example live=4")
        spec.lanes[name].partitions = int(partitions)
    for name, value in _pairs(topic_config, "--config", "segment.bytes=1073741824").items():
        spec.topic_config[name] = value
    from_document({name: value for name, value in fields.items() if value}, spec, "spec")
    return spec


async def create_stream(session: Session, name: str, spec: stream_pb2.StreamSpec, dry_run: bool, format: Format) -> int:
    """Creates a stream and prints where it is."""
    request = registry_api.CreateStreamRequest(name=name, spec=spec, dry_run=dry_run)
    made = await session.change("registry", "CreateStream", request, stream_pb2.Stream, f"creating stream {name}")
    for warning in stream_warnings(name, made.spec):
        session.terminal.note(warning)
    return _told(session, STREAM, stream_item(made), "created", dry_run, format)


async def create_cluster(
    session: Session, name: str, spec: cluster_pb2.ClusterSpec, take_over: str, dry_run: bool, format: Format
) -> int:
    """Registers a cluster that answers; `take_over` names the mesh it belonged to, which no longer exists."""
    request = registry_api.CreateClusterRequest(name=name, spec=spec, dry_run=dry_run, take_over=take_over)
    made = await session.change("registry", "CreateCluster", request, cluster_pb2.Cluster, f"asking cluster {name}")
    for warning in cluster_warnings(name, made):
        session.terminal.note(warning)
    return _told(session, CLUSTER, cluster_item(made), "created", dry_run, format)


async def find_losses(session: Session, name: str, told: list[str]) -> int:
    """Adds what would be lost with a stream to `told`, for the question whether to delete it.

    Raises:
        NotFound: the stream does not exist; the nearest one is named.
    """
    try:
        told[0] = (await stream_losses(session, name)).text
    except NotFound as error:
        raise await missing_among(error, name, all_streams(session)) from error
    return 0


async def delete_item(session: Session, kind: Kind, name: str, *, warn: bool = False) -> int:
    """Deletes a stream, cluster, group, tenant or approval policy.

    `warn` prints first what is lost with a stream that groups consume.

    Raises:
        NotFound: there is no object of this name; the nearest one is named.
    """
    try:
        if warn and kind is STREAM:
            await _warn(session, name)
        await _DELETERS[kind](session, name)
    except NotFound as error:
        raise await missing_among(error, name, list_items(session, kind, Scope())) from error
    session.terminal.print(f"{kind.singular}/{name} deleted")
    return 0


async def _warn(session: Session, name: str) -> None:
    losses = await stream_losses(session, name)
    if losses.consumed:
        session.terminal.note(losses.text)


def _told(session: Session, kind: Kind, item: Item, what: str, dry_run: bool, format: Format) -> int:
    if format in (Format.JSON, Format.YAML):
        session.terminal.print(render_document(format, item.document))
        return 0
    if format is Format.NAME:
        session.terminal.print(item.reference)
        return 0
    suffix = (
        " (dry run: nothing was changed)" if dry_run else f"; watch it: {_HOW_TO_WATCH[kind].format(name=item.name)}"
    )
    session.terminal.print(f"{item.reference} {what}{suffix}")
    return 0


async def _delete_stream(session: Session, name: str) -> None:
    request = registry_api.DeleteStreamRequest(name=name)
    await session.change("registry", "DeleteStream", request, stream_pb2.Stream, f"deleting stream {name}")


async def _delete_cluster(session: Session, name: str) -> None:
    request = registry_api.DeleteClusterRequest(name=name)
    await session.change("registry", "DeleteCluster", request, cluster_pb2.Cluster, f"deleting cluster {name}")


async def _delete_group(session: Session, name: str) -> None:
    request = assigner_api.DeleteGroupRequest(name=name)
    await session.change("assigner", "DeleteGroup", request, group_pb2.Group, f"deleting group {name}")


async def _delete_tenant(session: Session, name: str) -> None:
    request = tenant_pb2.DeleteTenantRequest(name=name)
    await session.change("registry", "DeleteTenant", request, tenant_pb2.Tenant, f"deleting tenant {name}")


async def _delete_policy(session: Session, name: str) -> None:
    request = approval_pb2.DeleteApprovalPolicyRequest(name=name)
    doing = f"deleting approval policy {name}"
    await session.change("registry", "DeleteApprovalPolicy", request, approval_pb2.ApprovalPolicy, doing)


_DELETERS: Final[Mapping[Kind, Callable[[Session, str], Awaitable[None]]]] = {
    STREAM: _delete_stream,
    CLUSTER: _delete_cluster,
    GROUP: _delete_group,
    TENANT: _delete_tenant,
    APPROVAL_POLICY: _delete_policy,
}


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(written: Sequence[str], flag: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in written:
        name, separator, value = each.partition("=")
        if not separator or not name or not value:
            raise Invalid(f"{each!r} is not NAME=VALUE", field=flag, remedy=f"for example {flag} {example}")
        if name in found:
            raise Invalid(f"{name} is given twice", field=flag)
        found[name] = value
    return found
