"""Hands decisions to members' streams and pushes them, a few streams at once, so that other tasks get their turn.

Only grants, revokes and the like pass here. The term knows which members are connected, and until when.
"""

from collections.abc import Iterable
from itertools import islice

from braid.kernel.limits.assigner.leases import FLUSHES_AT_ONCE, REVOKE_DEADLINE_SECONDS
from braid.kernel.ports import Task
from braid.runtime.replica import Replica
from services.assigner.domain.responses import division_of
from services.assigner.liveness.member_streams import MemberKey, MemberStream, MemberStreams
from services.assigner.model.backlog_splits import SplitAsked
from services.assigner.model.events import (
    GenerationBumped,
    LeaseGrant,
    LeasesGranted,
    LeasesReleased,
    ReleaseReason,
    RevokesStarted,
)
from services.assigner.model.lag.response_events import ResponsesSet, ResponseTaken, ResponseUndone
from services.assigner.model.stopped_lanes import LaneResumeAsked
from services.assigner.reconciler.group_loop import GROUPS


class MemberPushes:
    """The changes of one term on their way to its streams."""

    def __init__(self, replica: Replica, streams: MemberStreams) -> None:
        """`streams` belong to the term; they are only read here."""
        self._replica = replica
        self._streams = streams
        self._unflushed: dict[MemberStream, None] = {}
        self._flushing: Task | None = None

    def stop(self) -> None:
        """Pushes nothing more."""
        if self._flushing is not None:
            self._flushing.cancel()

    def tell(self, group: str, event: object, trace: str = "") -> dict[MemberKey, MemberStream]:
        """Hands an event and its trace to the streams it concerns; returns the streams to flush."""
        told = self._tell(group, event)
        if trace:
            for stream in told.values():
                stream.traced(trace)
        return told

    def _tell(self, group: str, event: object) -> dict[MemberKey, MemberStream]:
        match event:
            case LeasesGranted(grants):
                return self._share(group, grants, None, "")
            case RevokesStarted(leases, _, reason):
                return self._share(group, leases, REVOKE_DEADLINE_SECONDS, reason)
            case LeasesReleased(leases, ReleaseReason.TAKEN | ReleaseReason.CHANNEL_GONE as cause):
                return self._share(group, leases, 0.0, cause.name.lower().replace("_", " "))
            case GenerationBumped(cluster):
                return self._lend(group, cluster)
            case LaneResumeAsked(member, lane):
                if (stream := self._streams.get(MemberKey(group, member))) is not None:
                    stream.resume(lane)
            case ResponsesSet() | ResponseTaken() | ResponseUndone():
                self._divide(group)
            case SplitAsked(lease):
                self._ask_to_split(group, lease)
        return {}

    def _share(
        self, group: str, leases: Iterable[LeaseGrant], deadline_seconds: float | None, reason: str
    ) -> dict[MemberKey, MemberStream]:
        """Hands each member's stream its part: a grant without a deadline, else a revoke."""
        parts: dict[MemberKey, list[LeaseGrant]] = {}
        for lease in leases:
            parts.setdefault(MemberKey(group, lease.member), []).append(lease)
        told = {key: stream for key in parts if (stream := self._streams.get(key)) is not None}
        for key, stream in told.items():
            if deadline_seconds is None:
                stream.granted(parts[key])
            else:
                stream.revoked(parts[key], deadline_seconds, reason)
        return told

    def _ask_to_split(self, group: str, lease: str) -> None:
        """Asks the holder to split its lease, if it is still the one that was meant."""
        state = self._replica.aggregates.state(GROUPS, group)
        held, split = state.leases.get(lease), state.splits.get(lease)
        if held is None or split is None or held.epoch != split.epoch:
            return
        if (stream := self._streams.get(MemberKey(group, held.holder))) is not None:
            stream.split(split)

    def _divide(self, group: str) -> None:
        """Tells members how to divide their work: all of it, under a revision that has grown."""
        work = division_of(self._replica.aggregates.state(GROUPS, group))
        for stream in self._streams.of(group):
            stream.divide(work)

    def _lend(self, group: str, cluster: str) -> dict[MemberKey, MemberStream]:
        """Lends a new generation to the remaining members, and waits for none of them."""
        told = {stream.key: stream for stream in self._streams.of(group)}
        for stream in told.values():
            stream.lent(cluster)
        return told

    def flush(self, streams: Iterable[MemberStream]) -> None:
        """Pushes to streams: to a few at once, to the others in later turns of the event loop.

        A stream that is flushed late gets what holds at that moment.
        """
        left = iter(streams)
        for stream in islice(left, FLUSHES_AT_ONCE):
            stream.flush()
            self._unflushed.pop(stream, None)
        self._unflushed |= dict.fromkeys(left)
        if self._unflushed and self._flushing is None:
            self._flushing = self._replica.host.tasks.spawn(self._flush_rest(), "deltas")

    async def _flush_rest(self) -> None:
        try:
            while self._unflushed:
                await self._replica.host.clock.sleep(0)
                some = list(islice(self._unflushed, FLUSHES_AT_ONCE))
                for stream in some:
                    del self._unflushed[stream]
                    stream.flush()
        finally:
            self._flushing = None
