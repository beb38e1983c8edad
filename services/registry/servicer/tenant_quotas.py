"""Quotas of streams and partitions, checked where a request would create some. Failovers are never refused."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from braid.kernel.access.promises import Promises
from braid.kernel.access.quotas import check_quota
from services.registry.histories import STREAMS
from services.registry.model.streams import Stream
from services.registry.policy.moves import LaneMove
from services.registry.servicer.request_context import RequestContext

_FREE: Final = "delete streams that nobody needs (braid get streams)"


class Used(NamedTuple):
    """How much a tenant has."""

    streams: int
    partitions: int


class _Promise(NamedTuple):
    """The size that a stream will have by a request under way."""

    stream: str
    partitions: int


class TenantQuotas:
    """The quotas of one replica's requests on streams."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._promises = Promises[_Promise]()

    def used(self) -> Mapping[str, Used]:
        """How much each tenant has, or is being given by this replica; tenants with nothing are left out."""
        return {name: Used(len(found), sum(found.values())) for name, found in self._streams().items()}

    @contextmanager
    def promised(self, name: str, tenant: str, partitions: int) -> Iterator[None]:
        """Checks that a tenant may have a stream with so many partitions, and counts it from then on to the end.

        Raises:
            QuotaExceeded: it has too many streams, or would have too many partitions.
        """
        quotas, found = self._context.replica.tenants.tenant(tenant).quotas, self._streams().get(tenant, {})
        check_quota(tenant, "streams", len(found), int(name not in found), quotas.streams, free=_FREE)
        more = partitions - found.get(name, 0)
        check_quota(tenant, "partitions", sum(found.values()), more, quotas.partitions, free=_FREE)
        with self._promises.made(tenant, _Promise(name, partitions)):
            yield

    def _streams(self) -> dict[str, dict[str, int]]:
        """The partitions of each stream, by tenant."""
        aggregates, found = self._context.replica.aggregates, dict[str, dict[str, int]]()
        for history in aggregates.histories(STREAMS.name):
            stream = aggregates.state(STREAMS, history.id)
            if stream.exists:
                found.setdefault(stream.tenant, {})[stream.name] = stream.partitions
        for tenant in self._promises.tenants():
            mine = found.setdefault(tenant, {})
            for name, partitions in self._promises.of(tenant):
                mine[name] = max(partitions, mine.get(name, 0))
        return found


def partitions_after(stream: Stream, moves: Sequence[LaneMove]) -> int:
    """How many partitions a stream has once its moves are made."""
    leaving = {channel.ref for move in moves for channel in move.drain}
    moved = {move.lane for move in moves}
    stay = sum(each.partitions for lane in moved for each in stream.active(lane) if each.ref not in leaving)
    come = sum(move.partitions for move in moves if not move.joins)
    return stay + come + sum(stream.lane_partitions(lane) for lane in stream.spec.lanes if lane not in moved)
