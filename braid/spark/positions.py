"""A streaming query's offsets, as its checkpoint holds them. Pure.

The JSON says whose progress it is and, by lease, the range of the batch that ends there: `from` and `to`. A batch can
be planned again from its end alone, whatever happened to leases since, and a channel that appears (a failover, a
move) is just one more lease. Keys are sorted: Spark compares the text.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Self

from braid.client.planning.planned_lease import Offer
from braid.client.planning.planner import Done
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.progress.ranges import Ranges
from braid.spark.limits import SPARK_SKIP_SPANS_MAX
from braid.spark.plan import share_limit

_FORMAT = 1
Json = dict[str, object]


class LeaseBatch(NamedTuple):
    """The part of one lease in a batch: offsets `[start, end)` without `skip` (start, end, start, end …).

    `topic_id` says of which log; empty in checkpoints of before it was noted.
    """

    start: int
    end: int
    skip: tuple[int, ...] = ()
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Positions:
    """The position of a query: everything below each batch's end is in a finished batch or done by others."""

    stream: str
    group: str
    batches: Mapping[LeaseId, LeaseBatch] = field(default_factory=dict)

    @property
    def ends(self) -> dict[LeaseId, int]:
        """Returns, by lease, the offset below which everything is done once the batch is."""
        return {lease: batch.end for lease, batch in self.batches.items()}

    @property
    def done(self) -> dict[LeaseId, Done]:
        """Returns `ends`, each with the topic id of its log."""
        return {lease: Done(batch.end, batch.topic_id) for lease, batch in self.batches.items()}

    def without(self, channels: Set[ChannelId], leases: Set[LeaseId] = frozenset()) -> Self:
        """Returns these positions without channels and leases whose logs are gone."""
        if not channels and not leases:
            return self
        left = {
            lease: batch
            for lease, batch in self.batches.items()
            if lease.channel not in channels and lease not in leases
        }
        return type(self)(self.stream, self.group, left)

    def replaced(self, offers: Mapping[LeaseId, Offer]) -> set[LeaseId]:
        """Returns leases whose log is not the one in these positions."""
        return {
            lease
            for lease, batch in self.batches.items()
            if batch.topic_id and lease in offers and offers[lease].topic_id not in (b"", batch.topic_id)
        }

    def short(self, offers: Mapping[LeaseId, Offer]) -> set[LeaseId]:
        """Returns leases whose log ends before these positions."""
        return {lease for lease, end in self.ends.items() if lease in offers and offers[lease].end < end}

    def nothing_since(self, begun: Self) -> bool:
        """Whether a batch from there to here would be empty."""
        return all(begun.batches.get(lease) == batch for lease, batch in self.batches.items())

    def to_json(self) -> Json:
        """Returns the JSON for the checkpoint."""
        leases = {str(lease): _batch_json(self.batches[lease]) for lease in self.batches}
        return {"format": _FORMAT, "group": self.group, "leases": dict(sorted(leases.items())), "stream": self.stream}

    @classmethod
    def parse(cls, found: Mapping[str, object], stream: str, group: str) -> Self:
        """Reads a checkpoint's offsets.

        Raises:
            Invalid: they are not ours, or another stream's or group's.
            Unsupported: a later release wrote them.
        """
        remedy = "give the query a checkpointLocation of its own"
        leases = found.get("leases")
        if not isinstance(leases, dict) or not {"format", "group", "stream"} <= found.keys():
            raise Invalid("holds offsets of another source", field="checkpointLocation", remedy=remedy)
        if found["format"] != _FORMAT:
            raise Unsupported(f"format {found['format']} is not known to this release", field="checkpointLocation")
        for name, ours in (("stream", stream), ("group", group)):
            if found[name] != ours:
                raise Invalid(f"belongs to {name} {found[name]}, not {ours}", field="checkpointLocation", remedy=remedy)
        try:
            batches = {LeaseId.parse(lease): _batch(batch) for lease, batch in leases.items()}
        except (KeyError, TypeError, ValueError, Invalid) as error:
            raise Invalid(f"holds damaged offsets: {error}", field="checkpointLocation", remedy=remedy) from error
        return cls(stream, group, batches)

    def advance(
        self, offers: Mapping[LeaseId, Offer], rows_max: int | None, until: Mapping[LeaseId, int] | None = None
    ) -> Self:
        """Returns the end of the next batch; this very object when there is nothing to read.

        Args:
            offers: What the leases held now have to offer; others stay where they are.
            rows_max: Rows of the batch at most; None for no limit.
            until: Ends not to be passed, and the only leases to be read; None for no such bound.
        """
        starts, backlogs = {}, {}
        for lease, offer in offers.items():
            end = offer.end if until is None else min(offer.end, until.get(lease, 0))
            before = self.batches.get(lease)
            starts[lease] = start = max(offer.start, before.end if before else 0)
            if end > start:
                backlogs[lease] = end - start
        rows = backlogs if rows_max is None else share_limit(backlogs, rows_max)
        if not rows:
            return self
        batches = {
            lease: LeaseBatch(batch.end, batch.end, topic_id=batch.topic_id) for lease, batch in self.batches.items()
        }
        for lease, count in rows.items():
            start, end = starts[lease], starts[lease] + count
            skip = Ranges.of_edges(offers[lease].skip).clip(start, end)
            edges = skip.edges if len(skip) <= SPARK_SKIP_SPANS_MAX else ()
            batches[lease] = LeaseBatch(start, end, edges, offers[lease].topic_id)
        return type(self)(self.stream, self.group, batches)


def _batch_json(batch: LeaseBatch) -> Json:
    found: Json = {"from": batch.start}
    if batch.skip:
        found["skip"] = ",".join(str(edge) for edge in batch.skip)
    found["to"] = batch.end
    if batch.topic_id:
        found["topic_id"] = batch.topic_id.hex()
    return found


def _batch(found: Mapping[str, object]) -> LeaseBatch:
    start, end = found["from"], found["to"]
    if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end:
        raise ValueError(f"{start} to {end} is no range")
    skip = tuple(int(edge) for edge in str(found.get("skip", "")).split(",") if edge)
    if len(skip) % 2 or any(low >= high for low, high in pairwise(skip)):
        raise ValueError(f"{skip} are no ranges")
    return LeaseBatch(start, end, skip, bytes.fromhex(str(found.get("topic_id", ""))))
