"""Collects what is recorded of a replica's calls, in memory and within bounds, until it is written."""

from collections import Counter
from typing import NamedTuple

from braid.kernel.access.refusals import refusal_of
from braid.kernel.access.requests import Lookup, needs_of
from braid.kernel.access.table import row_of
from braid.kernel.audit.calls import AuditRecord, Call, CallRecorded, CallsLost, Outcome, host_of, shown
from braid.kernel.audit.commands import command_of
from braid.kernel.audit.counting import CallCounts
from braid.kernel.audit.forms import Form, Reads, form_of
from braid.kernel.audit.retention import last_ms
from braid.kernel.errors import BraidError, Code, NotLeader
from braid.kernel.limits.access.audit import (
    AUDIT_BUFFER_RECORDS_MAX,
    AUDIT_RESOURCES_MAX,
    AUDIT_SINGLE_PER_SECOND,
)
from braid.kernel.ports import Caller, Clock
from braid.runtime.telemetry import Metrics


class Taken(NamedTuple):
    """Records that are to be written, by the history that they belong to."""

    changes: list[AuditRecord]
    counts: list[AuditRecord]


class Recorder:
    """Collects the records of one replica. All of it is synchronous and bounded: a call never waits for it."""

    def __init__(self, service: str, clock: Clock, lookup: Lookup, reads: Reads, metrics: Metrics) -> None:
        self._service = service
        self._clock = clock
        self._lookup = lookup
        self._reads = reads
        self._metrics = metrics
        self._changes: list[AuditRecord] = []
        self._counts = CallCounts()
        self._second = 0
        self._in_second: Counter[str] = Counter()
        self._lost: CallsLost | None = None

    # --- what calls tell

    def done(self, rpc: str, request: object, caller: Caller) -> None:
        """A call was answered."""
        self._record(rpc, request, caller, Outcome.OK, "", stream=False)

    def opened(self, rpc: str, request: object | None, caller: Caller) -> None:
        """A stream was let in."""
        self._record(rpc, request, caller, Outcome.OPENED, "", stream=True)

    def failed(self, rpc: str, request: object | None, caller: Caller, error: BaseException, *, stream: bool) -> None:
        """A call or stream was refused, or ended with an error. A redirect to the leader is neither."""
        if isinstance(error, NotLeader):
            return
        refusal = refusal_of(error) if isinstance(error, BraidError) else None
        if refusal is not None:
            self._record(rpc, request, caller, Outcome.REFUSED, refusal.value, stream=stream)
            return
        reason = error.reason if isinstance(error, BraidError) else _unforeseen(error)
        self._record(rpc, request, caller, Outcome.FAILED, reason, stream=stream)

    # --- what the writer takes

    def take(self, *, last: bool = False) -> Taken:
        """Takes the records to be written now; with `last` all there are."""
        changes, self._changes = self._changes, []
        now = self._clock.elapsed()
        counts: list[AuditRecord] = [*(self._counts.all_changed() if last else self._counts.due(now))]
        if self._lost is not None:
            counts.append(self._lost)
            self._lost = None
        return Taken(changes, counts)

    def lose(self, records: list[AuditRecord]) -> None:
        """Counts records that will not be written: there are too many, or the process ends."""
        for record in records:
            self._metrics.audit.lost.inc(record.count)
            until_ms = last_ms(record)
            lost = self._lost or CallsLost(0, record.first_ms, until_ms)
            self._lost = CallsLost(
                lost.count + record.count, min(lost.first_ms, record.first_ms), max(lost.last_ms, until_ms)
            )

    # --- how

    def _record(
        self, rpc: str, request: object | None, caller: Caller, outcome: Outcome, reason: str, *, stream: bool
    ) -> None:
        row = row_of(self._service, rpc)
        form = form_of(row, outcome, self._reads, stream=stream)
        if form is Form.NOTHING:
            return
        self._metrics.audit.records.labels(outcome.value).inc()
        call = Call(
            self._clock.now_ms(),
            caller.principal if caller.authenticated else shown(caller.principal),
            caller.authenticated,
            shown(caller.tenant),
            host_of(caller.peer),
            self._service,
            rpc,
            self._resource(rpc, request),
            shown(caller.request_id),
            outcome,
            reason,
            command_of(self._service, rpc, request),
        )
        if form is Form.SINGLE and self._may_be_single(call):
            record = CallRecorded(call, 1, call.time_ms)
            if len(self._changes) >= AUDIT_BUFFER_RECORDS_MAX:
                self.lose([record])
            else:
                self._changes.append(record)
            return
        self._counts.add(call, self._clock.elapsed())

    def _may_be_single(self, call: Call) -> bool:
        second = int(self._clock.elapsed())
        if second != self._second:
            self._second = second
            self._in_second.clear()
        self._in_second[call.owner] += 1
        return self._in_second[call.owner] <= AUDIT_SINGLE_PER_SECOND

    def _resource(self, rpc: str, request: object | None) -> str:
        row = row_of(self._service, rpc)
        if row is None:
            return ""
        if request is None:
            return str(row.unnamed)
        names = [shown(str(need.resource)) for need in needs_of(row, request, self._lookup)]
        more = ["…"] if len(names) > AUDIT_RESOURCES_MAX else []
        return ",".join([*names[:AUDIT_RESOURCES_MAX], *more])


def _unforeseen(error: BaseException) -> str:
    """The reason of what is no error of Braid's own: a caller that went away or gave up, or a mistake in Braid."""
    return Code.INTERNAL.name if isinstance(error, Exception) else Code.CANCELLED.name
