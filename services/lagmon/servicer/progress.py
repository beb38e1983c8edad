"""The RPC handler for the progress of one partition: what the newest commit says is done, rejected and retried."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1.progress_pb2 import OffsetSpan, Progress, RetriedRecord
from braid.kernel.envelope import MetadataKind
from braid.kernel.errors import BraidError, Invalid, NotFound, Unavailable
from braid.kernel.limits.lagmon.sampling import LAG_PROGRESS_SPANS_MAX
from braid.kernel.ports import Caller
from braid.kernel.progress.ranges import Ranges
from services.lagmon.columns.progress import PairName
from services.lagmon.policy import Commit

_PARTITION_MAX = (1 << 31) - 1


class ReadsProgress(Protocol):
    """Another replica, which answers what it read; see `exchange.peer.Peer`."""

    async def progress(self, request: api.GetProgressRequest) -> Progress: ...


class ProgressReads:
    """Handles `GetProgress`: from what this replica reads, or else from the replicas that read the cluster."""

    def __init__(
        self,
        commit: Callable[[str, PairName, int], Commit | None],
        peers: Callable[[], Mapping[str, ReadsProgress]],
    ) -> None:
        """`commit` returns the newest one that this replica has read; `peers` the other replicas."""
        self._commit = commit
        self._peers = peers

    async def get_progress(self, request: api.GetProgressRequest, caller: Caller) -> Progress:
        """Returns the progress of one partition.

        Raises:
            Invalid: a field is missing.
            NotFound: no replica has read a commit of it.
            Unavailable: a replica that may have read one does not answer.
        """
        for field in ("group", "cluster", "topic"):
            if not getattr(request, field):
                raise Invalid(f"no {field} is named", field=field, remedy=f"name the {field}")
        if request.partition < 0:
            raise Invalid(f"{request.partition} is no partition", field="partition", remedy="number it from 0")
        commit = self._commit(request.cluster, PairName(request.group, request.topic), request.partition)
        if commit is not None:
            return progress_message(request, commit)
        return await self._of_peers(request)

    async def _of_peers(self, request: api.GetProgressRequest) -> Progress:
        peers = {} if request.own_only else self._peers()
        asked = api.GetProgressRequest()
        asked.CopyFrom(request)
        asked.own_only = True
        found = await asyncio.gather(*(peer.progress(asked) for peer in peers.values()), return_exceptions=True)
        silent = []
        for name, answer in zip(peers, found, strict=True):
            if isinstance(answer, Progress):
                return answer
            if not isinstance(answer, BraidError):
                raise answer
            if not isinstance(answer, NotFound):
                silent.append(name)
        if silent:
            raise Unavailable(f"{', '.join(sorted(silent))} may have read it, and did not answer", remedy="try again")
        where = f"partition {request.partition} of {request.topic} on {request.cluster}"
        remedy = f"see where it works: braid get lag {request.group} --partitions"
        raise NotFound(f"no commit of {request.group} is known for {where}", field="group", remedy=remedy)


def progress_message(request: api.GetProgressRequest, commit: Commit) -> Progress:
    """Builds the message of a commit: of each kind, as many ranges as fit, those with the lowest offsets."""
    fields = commit.fields
    done = commit.claims.subtract(Ranges([(0, max(commit.offset, 0))]))
    kinds = (done, fields.rejected, fields.expired)
    beyond = any(len(each.edges) // 2 > LAG_PROGRESS_SPANS_MAX for each in kinds)
    return Progress(
        group=request.group,
        cluster=request.cluster,
        topic=request.topic,
        partition=request.partition,
        committed_offset=commit.offset,
        commit_time_ms=commit.time_ms,
        has_envelope=commit.kind is MetadataKind.ENVELOPE,
        epoch=fields.epoch,
        done=_spans(done),
        rejected=_spans(fields.rejected),
        expired=_spans(fields.expired),
        retried=[
            RetriedRecord(offset=each.offset, attempts=each.attempts)
            for each in fields.attempts[:LAG_PROGRESS_SPANS_MAX]
        ],
        partial=beyond or fields.spill is not None or len(fields.attempts) > LAG_PROGRESS_SPANS_MAX,
    )


def _spans(ranges: Ranges) -> Iterable[OffsetSpan]:
    edges = ranges.edges[: 2 * LAG_PROGRESS_SPANS_MAX]
    return [OffsetSpan(first=start, last=end - 1) for start, end in zip(edges[::2], edges[1::2], strict=True)]
