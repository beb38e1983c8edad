"""One object at a past moment, with related objects: items read from the histories. Changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
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
        remedy = "upgrade its services"
        raise Unsupported("this mesh's release cannot describe the past", field="--at", remedy=remedy) from error


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
