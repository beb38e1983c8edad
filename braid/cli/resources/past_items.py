"""Objects at a past moment, one with related objects or all of a type: read from the histories. Changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.mesh.v1.event_pb2 import EventGap
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.cli.core.kinds import CHANNEL, CLUSTER, GROUP, LEASE, MEMBER, STREAM, Kind
from braid.cli.core.limits import CLI_ITEMS_MAX
from braid.cli.core.output import Item
from braid.cli.core.session import Session
from braid.cli.resources.listing import channel_item, cluster_item, group_item, lease_item, member_item, stream_item
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.limits.names import PAGE_SIZE_MAX

KINDS: Final = (STREAM, CLUSTER, GROUP)
_METHOD: Final = "DescribePast"
_Listed = tuple[list[Item], list[EventGap]]


class PastItem(NamedTuple):
    """An object at a past moment, and its related objects by type."""

    item: Item
    related: Mapping[Kind, Sequence[Item]]


async def read_past(session: Session, kind: Kind, name: str, at_ms: int) -> PastItem:
    """Reads a stream, a cluster or a group at a past moment.

    Raises:
        NotFound: it did not exist then.
        HistoryHole: the moment's events are not kept.
        Unsupported: the mesh's release cannot answer.
    """
    if kind not in KINDS:
        remedy = "of these alone: stream, cluster, group; for a lease: braid why lease NAME --at TIME"
        raise Invalid(f"a {kind.singular} has no history of its own", field="--at", remedy=remedy)
    try:
        return await (_group(session, name, at_ms) if kind is GROUP else _of_registry(session, kind, name, at_ms))
    except Unsupported as error:
        raise _too_old() from error


async def list_past(session: Session, kind: Kind, at_ms: int) -> list[Item]:
    """Lists all streams, clusters or groups at a past moment. What is not kept of it is noted, each with its reason.

    Raises:
        Unsupported: the mesh's release cannot answer.
    """
    lists = {STREAM: _past_streams, CLUSTER: _past_clusters, GROUP: _past_groups}
    if kind not in lists:
        raise Invalid(f"{kind.plural} are not listed as of a moment", field="--at", remedy="leave it out")
    try:
        items, gaps = await lists[kind](session, at_ms)
    except Unsupported as error:
        raise _too_old() from error
    for gap in gaps:
        session.terminal.note(f"{gap.history} is left out: {gap.reason}")
    return items


async def _past_streams(session: Session, at_ms: int) -> _Listed:
    gaps: list[EventGap] = []
    found = await session.pages(
        "registry",
        "ListPastStreams",
        lambda token: registry_api.ListPastStreamsRequest(at_ms=at_ms, page_token=token),
        registry_api.ListPastStreamsResponse,
        lambda page: _noted(gaps, page.gaps, map(stream_item, page.streams)),
    )
    return found, gaps


async def _past_clusters(session: Session, at_ms: int) -> _Listed:
    request = registry_api.ListPastClustersRequest(at_ms=at_ms)
    found = await session.read("registry", "ListPastClusters", request, registry_api.ListPastClustersResponse)
    return list(map(cluster_item, found.clusters)), list(found.gaps)


async def _past_groups(session: Session, at_ms: int) -> _Listed:
    gaps: list[EventGap] = []
    found = await session.pages(
        "assigner",
        "ListPastGroups",
        lambda token: assigner_api.ListPastGroupsRequest(at_ms=at_ms, page_token=token),
        assigner_api.ListPastGroupsResponse,
        lambda page: _noted(gaps, page.gaps, map(group_item, page.groups)),
    )
    return found, gaps


def _noted(gaps: list[EventGap], more: Iterable[EventGap], items: Iterable[Item]) -> list[Item]:
    """Adds a page's gaps to those of the pages before, and returns its items."""
    gaps.extend(more)
    return list(items)


def _too_old() -> Unsupported:
    return Unsupported("this mesh's release cannot describe the past", field="--at", remedy="upgrade its services")


async def _of_registry(session: Session, kind: Kind, name: str, at_ms: int) -> PastItem:
    request = registry_api.DescribePastRequest(at_ms=at_ms)
    setattr(request, kind.singular, name)
    found = await session.read("registry", _METHOD, request, registry_api.DescribePastResponse)
    channels = {CHANNEL: list(map(channel_item, found.channels))}
    if kind is CLUSTER:
        return PastItem(cluster_item(found.cluster), channels)
    of_stream = assigner_api.DescribePastRequest(stream=name, at_ms=at_ms)
    groups = await session.read("assigner", _METHOD, of_stream, assigner_api.DescribePastResponse)
    return PastItem(stream_item(found.stream), {**channels, GROUP: list(map(group_item, groups.groups))})


async def _group(session: Session, name: str, at_ms: int) -> PastItem:
    pages: list[assigner_api.DescribePastResponse] = []

    def items(page: assigner_api.DescribePastResponse) -> Sequence[Item]:
        pages.append(page)
        return list(map(lease_item, page.leases))

    leases = await session.pages(
        "assigner",
        _METHOD,
        lambda token: assigner_api.DescribePastRequest(
            group=name, at_ms=at_ms, page_size=PAGE_SIZE_MAX, page_token=token
        ),
        assigner_api.DescribePastResponse,
        items,
        CLI_ITEMS_MAX,
    )
    members = list(map(member_item, pages[0].members))
    return PastItem(group_item(pages[0].groups[0]), {MEMBER: members, LEASE: leases})
