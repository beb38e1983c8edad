"""Commits the progress of one cluster's leases: every interval, when much is done, and for the last time.

Every commit is a truthful claim, built from the leases held at that moment. One request is sent at a time, so that an
older claim never lands after a newer one. A commit states the newest leader epoch of what it claims beside its
metadata. So the claim does not cover what a later leader wrote in a log that was cut.

A lent generation goes through `KafkaOffsets.commit`, and nowhere else. Once a generation was lent, no commit is plain
any more: a commit that the cluster refuses waits until a newer generation is lent.

While commits are refused or get no answer, handlers continue up to a bound. A crash repeats everything done meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from braid.client.commits.encoder import CommitEncoder, EncodedProgress
from braid.client.delivery.lease_work import LeaseWork
from braid.kernel.errors import BraidError, ClusterAccessDenied, ClusterUnavailable, Fenced, Invalid, NotFound
from braid.kernel.ids import LeaseId
from braid.kernel.limits.assigner.leases import CLUSTER_REACHED_SECONDS, UNCOMMITTED_RECORDS_MAX
from braid.kernel.limits.client import COMMIT_RECORDS_MAX, FINAL_COMMIT_SECONDS, RECOMMIT_SECONDS
from braid.kernel.ports import (
    Committed,
    Contact,
    Generation,
    Host,
    KafkaOffsets,
    TopicPartition,
)

_log = logging.getLogger("braid.consumer")


async def _ask_nobody(generation: Generation) -> None:
    """Asks for no generation: used where no assigner gives out leases."""


class Committer:
    """Commits the progress of one group's leases on one cluster.

    Attributes:
        encoder: Says what they state.
        generation: What they carry; None before one was lent.
    """

    def __init__(
        self,
        host: Host,
        group: str,
        offsets: KafkaOffsets,
        encoder: CommitEncoder,
        *,
        interval_seconds: float,
        refused: Callable[[BraidError], None],
        ask: Callable[[Generation], Awaitable[None]] = _ask_nobody,
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        """`encoder` says what a commit states; `refused` is called with an error that no retry can mend.

        `ask` tells the assigner which generation was refused; `resumed` is called when `stopped` may have ended.
        """
        self.encoder = encoder
        self.generation: Generation | None = None
        self._host = host
        self._group = group
        self._offsets = offsets
        self._interval_seconds = interval_seconds
        self._refused = refused
        self._ask = ask
        self._resumed = resumed
        self._works: dict[LeaseId, LeaseWork] = {}
        self._lent = asyncio.Event()
        self._stale = False  # the cluster knows a newer generation than this member
        self._fenced = False
        self._answered_at = float("-inf")
        self._asked_at: float | None = None  # when the oldest commit was sent since the last answer
        self._told_full = False  # records done since then
        self._denial = ""  # why the cluster refuses commits
        self._uncommitted = 0  # records done since the last commit that was taken
        self._done_since = 0
        self._recommit_seconds = RECOMMIT_SECONDS
        self._due = asyncio.Event()
        self._lock = asyncio.Lock()

    def learn(self, limit_units: int, retention_minutes: int) -> None:
        """Sets the cluster's limits: metadata units of a commit, and how long the cluster keeps one."""
        self.encoder.limit(limit_units)
        self._recommit_seconds = min(RECOMMIT_SECONDS, retention_minutes * 60 / 3)

    def lend(self, generation: Generation) -> None:
        """Uses this generation for all later commits; a commit that was refused is sent again at once.

        Nothing else is committed at once: new leases come with a newer generation, and their restore would wait behind
        that commit.
        """
        if self._fenced or self._stale:
            self._due.set()
        self.generation = generation
        self._stale = False
        self._lent.set()
        self._resumed()

    def contact(self) -> Contact:
        """Says when the newest commit was answered. No answer is ever due, because an idle member commits nothing."""
        return Contact(answered_seconds_ago=self._host.clock.elapsed() - self._answered_at)

    @property
    def unreachable(self) -> bool:
        """Whether no commit was answered lately. An idle member cannot know more."""
        return self._host.clock.elapsed() - self._answered_at > CLUSTER_REACHED_SECONDS

    @property
    def stopped(self) -> bool:
        """Whether no new work may begin: others may own the leases, or too much finished work is uncommitted."""
        return self._stale or (self._fenced and self.generation is not None and self._full) or self._awaiting

    @property
    def _full(self) -> bool:
        return self._uncommitted > UNCOMMITTED_RECORDS_MAX

    @property
    def _unanswered(self) -> bool:
        """Whether commits were sent and none was answered for a while; False for an idle member, which sends none."""
        asked = self._asked_at
        return asked is not None and self._host.clock.elapsed() - asked > CLUSTER_REACHED_SECONDS

    @property
    def _awaiting(self) -> bool:
        """Whether no new work begins before a commit is answered."""
        return self._full and self._unanswered

    @property
    def works(self) -> Sequence[LeaseWork]:
        """The work on all leases whose progress is committed."""
        return tuple(self._works.values())

    def add(self, work: LeaseWork) -> None:
        """Commits the progress of a restored lease from now on."""
        self._works[work.lease.id] = work

    def remove(self, work: LeaseWork) -> None:
        """Commits nothing more of a lease that is gone."""
        if self._works.get(work.lease.id) is work:
            del self._works[work.lease.id]
        self.encoder.forget(work)
        if not self._works:  # the next holder repeats what was not committed
            self._uncommitted, self._asked_at = 0, None

    def settled(self, count: int) -> None:
        """Counts records of this cluster that are done."""
        self._done_since += count
        self._uncommitted += count
        if self._done_since >= COMMIT_RECORDS_MAX:
            self._due.set()

    def hurry(self) -> None:
        """Makes a commit due now."""
        self._due.set()

    async def tick(self) -> None:
        """Makes a commit due every interval, until cancelled."""
        while True:
            await self._host.clock.sleep(self._interval_seconds)
            self._due.set()

    async def run(self) -> None:
        """Commits whenever it is due, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._commit([work for work in self._works.values() if self._wants_commit(work)])
            except NotFound as error:
                _log.debug("commit on hold: %s", error)
            except ClusterUnavailable as error:
                await self._repeat_soon(error)
            except Fenced as error:  # a stray member occupies the group, or a newer generation is on its way to us
                if not self._fenced:
                    _log.warning("commits of group %s are refused and wait: %s", self._group, error)
                self._fenced = True
            except BraidError as error:
                self._refused(error)
                return

    async def _repeat_soon(self, error: ClusterUnavailable) -> None:
        """Makes the next commit due after an interval, or sooner if that is long: handlers may wait for the answer."""
        _log.debug("commit on hold: %s", error)
        self._note_denial(error)
        if self._awaiting and not self._told_full:
            self._told_full = True
            text = "no commit of group %s is answered, and %d records wait for one: fetching pauses until then: %s"
            _log.warning(text, self._group, self._uncommitted, error)
        await self._host.clock.sleep(min(self._interval_seconds, CLUSTER_REACHED_SECONDS))
        self._due.set()

    def _note_denial(self, error: ClusterUnavailable) -> None:
        """Logs that the cluster refuses commits; once, until the reason changes."""
        denial = error.message if isinstance(error, ClusterAccessDenied) else ""
        if denial and denial != self._denial:
            _log.error("commits of group %s are refused and wait: %s", self._group, error)
        self._denial = denial

    async def commit(self, works: Sequence[LeaseWork], *, final: bool = False) -> None:
        """Commits these partitions in one request. `final` adds the log's full fingerprint.

        A lent generation that is refused is asked for anew, and waited for.

        Raises:
            ClusterUnavailable: no answer; the claim may or may not be stored, and is repeated later.
            Fenced: a newer holder exists, or somebody else occupies the group; nothing is stored.
        """
        deadline = self._host.clock.elapsed() + FINAL_COMMIT_SECONDS
        while True:
            used = self.generation
            try:
                return await self._commit(works, final=final)
            except Fenced:
                if used is None or not await self._newer_within(used, deadline - self._host.clock.elapsed()):
                    raise

    async def _newer_within(self, used: Generation, seconds: float) -> bool:
        """Waits for another generation than the one used; returns whether it was lent in time."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                while self.generation == used:
                    self._lent.clear()
                    await self._lent.wait()
        except TimeoutError:
            return False
        return True

    async def _commit(self, works: Sequence[LeaseWork], *, final: bool = False) -> None:
        async with self._lock:
            while True:
                encoded = [await self.encoder.encode(work, final=final) for work in works if not work.ended]
                encoded = [each for each in encoded if not each.work.ended]
                if not encoded:
                    return
                self._done_since = 0
                uncommitted = self._uncommitted
                try:
                    await self._send({each.work.lease.topic_partition: each.committed for each in encoded})
                    break
                except Invalid as error:
                    if error.field != "metadata" or not self.encoder.shrink():
                        raise
            self._uncommitted = max(0, self._uncommitted - uncommitted)  # 0 since, where all leases went meanwhile
            now = self._host.clock.elapsed()
            for each in encoded:
                self._acknowledge(each, now)

    def _acknowledge(self, stored: EncodedProgress, now: float) -> None:
        kept_down = stored.commit.offset < stored.stated.base  # what kept the base down is stated now
        stored.work.committed(stored.version, stored.stated, now, again=kept_down)
        self.encoder.acknowledged(stored)

    async def _send(self, commits: dict[TopicPartition, Committed]) -> None:
        """Sends one request with the generation lent at this moment.

        If it is refused and nothing newer was lent, the assigner is told.
        """
        generation = self.generation
        if self._asked_at is None:
            self._asked_at = self._host.clock.elapsed()
        try:
            await self._offsets.commit(self._group, commits, generation)
        except Fenced as error:
            self._answered()
            if generation is not None and generation == self.generation:
                self._stale = "unknown_member" not in error.metadata
                await self._ask(generation)
            elif generation is not None:
                self._due.set()  # something newer was lent while this was on its way
            raise
        except (Invalid, NotFound):  # the cluster answers; the refusal is about some partitions
            self._answered()
            raise
        held, self._fenced, self._stale = self._fenced, False, False
        self._answered()
        if held:
            self._resumed()

    def _answered(self) -> None:
        """Notes that the cluster answered a commit: work that waited for that continues."""
        awaited = self._awaiting
        self._answered_at, self._asked_at, self._told_full = self._host.clock.elapsed(), None, False
        if awaited:
            self._resumed()

    def _wants_commit(self, work: LeaseWork) -> bool:
        """Whether the lease must be committed.

        It must if it is dirty, or was committed so long ago that the cluster would soon forget it, and always while an
        answer is due.
        """
        return work.dirty or self._awaiting or self._host.clock.elapsed() - work.committed_at > self._recommit_seconds
