"""Writes a replica's audit records: twice a second, beside all calls, under a fence of the replica's own.

A replica writes whether it leads or not, so it holds a leadership that is its alone, on a session that it keeps while
there is something to write. The store therefore refuses an earlier process of the same name.
"""

import asyncio

from braid.kernel.audit.calls import AUDIT
from braid.kernel.errors import BraidError, Fenced
from braid.kernel.ids import make_epoch, split_epoch
from braid.kernel.limits.access.audit import (
    AUDIT_CAMPAIGN_SECONDS,
    AUDIT_EXPIRY_SECONDS,
    AUDIT_LAST_WRITE_SECONDS,
    AUDIT_SESSION_IDLE_SECONDS,
    AUDIT_WRITE_SECONDS,
)
from braid.kernel.ports import Endpoint, EventStore, Host, Session
from braid.kernel.timing.days import DAY_MS
from braid.runtime.archive.log import ArchiveLog
from braid.runtime.archive.shelf import Shelf
from braid.runtime.archive.writer import SnapshotWriter
from braid.runtime.audit.codec import CHANGES, COUNTS
from braid.runtime.audit.exported import ExportedAudit
from braid.runtime.audit.history import AuditHistory
from braid.runtime.audit.json_lines import JsonLines
from braid.runtime.audit.recorder import Recorder
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.histories.kinds import Leadership
from braid.runtime.telemetry import Metrics, logger


class AuditWriter:
    """The writer of one replica."""

    def __init__(
        self,
        store: EventStore,
        host: Host,
        endpoint: Endpoint,
        session_ttl_seconds: float,
        recorder: Recorder,
        settings: AuditSettings,
        metrics: Metrics,
        shelf: Shelf | None,
    ) -> None:
        """Writes for the replica `endpoint`. Raises `Invalid` where the file for lines cannot be written."""
        id = f"{endpoint.service}.{endpoint.instance}"
        self._store = store
        self._host = host
        self._clock = host.clock
        self._seat = Endpoint(f"{AUDIT}.{id}", endpoint.instance, "")
        self._ttl_seconds = session_ttl_seconds
        self._recorder = recorder
        self._days = settings.days
        self._metrics = metrics
        self._log = logger(endpoint.service, endpoint.instance)
        self._exported = ExportedAudit(endpoint.service, endpoint.instance)
        self._lines = JsonLines(settings.log, endpoint.service, endpoint.instance, metrics, self._log)
        self._histories = [
            AuditHistory(store, kind, id, endpoint.instance, self._snapshots(shelved), settings.records)
            for kind, shelved in ((CHANGES, shelf), (COUNTS, None))  # counts are rewritten, and make no line of events
        ]
        self._session: Session | None = None
        self._held: Leadership | None = None
        self._wrote_at = self._clock.elapsed()
        self._cut_at = float("-inf")
        self._failing = False

    async def run(self) -> None:
        """Writes again and again, until cancelled."""
        while True:
            await self._clock.sleep(AUDIT_WRITE_SECONDS)
            await self.write()

    async def close(self) -> None:
        """Writes what is left, for a short time, and ends the session. Says how much is lost."""
        try:
            async with asyncio.timeout(AUDIT_LAST_WRITE_SECONDS):
                await self.write(last=True)
                await self._end_session()
        except TimeoutError:
            pass
        left = sum(each.waiting for each in self._histories)
        if left:
            self._log.error("audit records are lost: the store did not take them", count=left)

    async def write(self, *, last: bool = False) -> None:
        """Writes what there is; what the store does not take waits on."""
        for history, records in zip(self._histories, self._recorder.take(last=last), strict=True):
            self._lines.add(records)
            self._exported.add(records)
            self._recorder.lose(history.add(records))
        if self._lines.waiting:
            await self._host.tasks.run_blocking(self._lines.write)
        if not any(each.waiting for each in self._histories):
            await self._rest()
            return
        try:
            leadership = await self._lead()
            if leadership is None:
                return
            for history in self._histories:
                await history.write(leadership)
            await self._cut(leadership)
        except BraidError as error:
            self._failed(error)
        else:
            self._worked()

    async def _cut(self, leadership: Leadership) -> None:
        now = self._clock.elapsed()
        expiring = now - self._cut_at >= AUDIT_EXPIRY_SECONDS
        oldest_ms = self._clock.now_ms() - int(self._days * DAY_MS)
        for history in self._histories:
            if expiring or history.too_long:
                await history.cut(leadership, oldest_ms)
        if expiring:
            self._cut_at = now

    async def _lead(self) -> Leadership | None:
        """The right to write; None while an earlier process of this name has it still."""
        now = self._clock.elapsed()
        if self._held is not None and now < self._held.session.deadline():
            return self._held
        self._held = None
        if self._session is None or now >= self._session.deadline():
            self._session = await self._store.open_session(self._ttl_seconds)
        try:
            async with asyncio.timeout(AUDIT_CAMPAIGN_SECONDS):
                leader = await self._store.campaign(self._seat, self._session)
        except TimeoutError:
            return None
        for history in self._histories:
            history.doubt()
        epoch = make_epoch(await self._store.incarnation(), leader.fence.revision)
        self._held = Leadership(leader, self._session, epoch)
        return self._held

    async def _rest(self) -> None:
        """Gives the session back when there was nothing to write for a while."""
        if self._session is not None and self._clock.elapsed() - self._wrote_at >= AUDIT_SESSION_IDLE_SECONDS:
            await self._end_session()

    async def _end_session(self) -> None:
        session, self._session, self._held = self._session, None, None
        if session is None:
            return
        try:
            await session.close()
        except BraidError as error:
            self._log.warning("the session of the audit was not closed: it will expire", error=str(error))

    def _failed(self, error: BraidError) -> None:
        if isinstance(error, Fenced):
            self._held = self._session = None
        if not self._failing:
            self._log.error("audit records cannot be written: they wait in memory", error=str(error))
        self._failing = True
        self._metrics.audit.failing.labels("store").set(1)

    def _worked(self) -> None:
        if self._failing:
            self._log.info("audit records are written again")
        self._failing = False
        self._wrote_at = self._clock.elapsed()
        self._metrics.audit.failing.labels("store").set(0)

    def _snapshots(self, shelf: Shelf | None) -> SnapshotWriter:
        log = ArchiveLog(self._store, AUDIT, self._clock)
        return SnapshotWriter(self._store, self._host, AUDIT, self._metrics, shelf, log, self._incarnation)

    def _incarnation(self) -> int:
        return 0 if self._held is None else split_epoch(self._held.epoch)[0]
