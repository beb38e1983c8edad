"""What a consumer keeps for one cluster: clients, fetch loop, commits, and the leases that lie on it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from braid.client.commits.committer import Committer
from braid.client.commits.restore import Restored, restore
from braid.client.commits.spill import Spill
from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.background import Background
from braid.client.consuming.fetch_loop import FetchLoop
from braid.client.delivery.cursor import Cursor
from braid.client.delivery.dead_letter_limit import Brakes
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import Stage
from braid.client.handling.dead_letters import DeadLetters
from braid.client.handling.retries import Retries
from braid.client.records.delivery import OwnedLease
from braid.client.records.record import Record
from braid.client.records.where import headers_asked
from braid.client.telemetry.zone_bytes import Tally
from braid.kernel.errors import BraidError
from braid.kernel.limits.client import BACKLOG_PARTITION_BYTES, FETCH_PARTITION_BYTES
from braid.kernel.ports import Contact, Generation, Host, Isolation, KafkaCluster, Task


class Shared(NamedTuple):
    """Parts of a consumer that all of its leases use."""

    ready: ReadyQueue
    memory: MemoryBound
    retries: Retries
    dead_letters: DeadLetters
    brakes: Brakes


class ClusterLeases(Protocol):
    """The leases of a consumer, as its work on one cluster knows them."""

    @property
    def detached(self) -> bool:
        """Whether no assigner is in reach."""
        ...

    def begin_anew(self, lease: OwnedLease) -> None:
        """The log has nothing at the place where a lease would be fetched on: its progress is to be read again."""
        ...

    async def ask_generation(self, cluster: str, generation: Generation) -> None:
        """The cluster refuses commits of this generation: the assigner is asked for a newer one."""
        ...

    def close_finished(self, work: LeaseWork, cluster: "ClusterWork") -> None:
        """A commit is about to be made: backlog cursors of the lease that are done are closed."""
        ...


class ClusterWork:
    """One cluster's share of a consumer; also what its partitions' records turn to when they are settled."""

    def __init__(
        self,
        host: Host,
        name: str,
        cluster: KafkaCluster,
        settings: ConsumerSettings,
        shared: Shared,
        background: Background,
        leases: ClusterLeases,
        *,
        zone: str,
        fetched: Tally,
    ) -> None:
        """`fetched` counts the bytes that come."""
        self.admin = cluster.admin()
        self.offsets = cluster.offsets()
        fetching = partial(
            cluster.fetcher,
            isolation=Isolation.READ_COMMITTED,
            client_rack=zone,
            keep_damaged_bytes=settings.quarantine_bytes,
        )
        fetcher = fetching(max_partition_bytes=FETCH_PARTITION_BYTES)
        asked = headers_asked(settings.where)
        self.intake = FetchLoop(
            host, fetcher, shared.memory, leases.begin_anew, lambda: self.committer.stopped, asked, fetched
        )
        self._behind: FetchLoop | None = None  # once a lease here is split: older ranges are read beside the log's head
        self._open_behind: Callable[[], FetchLoop] = lambda: FetchLoop(
            host,
            fetching(max_partition_bytes=BACKLOG_PARTITION_BYTES),
            shared.memory,
            leases.begin_anew,
            lambda: self.committer.stopped,
            asked,
            fetched,
        )
        self._group = settings.group
        self._spill = Spill(host, cluster, self.admin, settings.group, background.beside)
        self.committer = Committer(
            host,
            settings.group,
            self.offsets,
            self.admin,
            interval_seconds=settings.commit_interval_seconds,
            detached=lambda: leases.detached,
            refused=background.refuse,
            ask=partial(leases.ask_generation, name),
            resumed=self._review,
            spill=self._spill,
            before=lambda work: leases.close_finished(work, self),
        )
        self.settled = self.committer.settled
        self._retries = shared.retries
        self._dead_letters = shared.dead_letters
        self._watch = background.watched
        self._tasks: list[Task] = []
        self._described = False
        self._unread: dict[LeaseWork, tuple[float, str]] = {}  # since when progress is being read; why it is still
        self._elapsed = host.clock.elapsed
        self.cluster_id = ""  # its own

    def start(self) -> None:
        """Starts fetching and committing."""
        self._tasks = [
            self._watch(self.intake.run, "intake"),
            self._watch(self.committer.run, "committer"),
            self._watch(self.committer.tick, "commit-interval"),
        ]

    async def describe(self) -> None:
        """Learns, once, what the cluster allows. Raises `ClusterUnavailable`."""
        if not self._described:
            described = await self.admin.describe_cluster()
            self.cluster_id = described.cluster_id
            self.committer.learn(described.offset_metadata_max_units, described.offsets_retention_minutes)
            self._described = True

    async def restore(self, work: LeaseWork) -> Restored:
        """Reads where work on a lease begins; raises what `restore` does."""
        place = work.lease.topic_partition
        spilled = partial(self._spill.read, work.lease.id, place)
        since, _ = self._unread.setdefault(work, (self._elapsed(), ""))
        try:
            return await restore(self._group, place, self.offsets, self.admin, spilled=spilled)
        except BraidError as error:
            if work in self._unread:
                self._unread[work] = since, str(error)
            raise

    def unread(self, work: LeaseWork) -> str:
        """For how long committed progress of a lease is being read, and what failed last; empty once it is read."""
        if work.stage is not Stage.RESTORING:
            return ""
        now = self._elapsed()
        since, why = self._unread.get(work, (now, ""))
        return f"for {now - since:.0f} s" + (f": {why}" if why else "")

    def add(self, work: LeaseWork) -> None:
        """Begins to fetch and commit a restored lease."""
        self._unread.pop(work, None)
        self.committer.add(work)
        self.intake.add(work.head)
        self.read_behind(work)

    def read_behind(self, work: LeaseWork, done: Cursor | None = None) -> None:
        """Fetches the range of a lease's oldest backlog cursor, if it has one, after the one that is done."""
        if self._behind is not None and done is not None:
            self._behind.remove(done)
        if not (work.behind and work.working):
            return
        if self._behind is None:
            self._behind = self._open_behind()
            self._tasks.append(self._watch(self._behind.run, "intake-behind"))
        self._behind.add(work.behind[0])

    def _review(self) -> None:
        self.intake.review()
        if self._behind is not None:
            self._behind.review()

    def contact(self) -> Contact:
        """Whether the cluster answers fetches and commits."""
        found = self.intake.contact().joined(self.committer.contact())
        return found if self._behind is None else found.joined(self._behind.contact())

    def remove(self, work: LeaseWork) -> None:
        """Ends fetching and committing a lease."""
        self._unread.pop(work, None)
        self.committer.remove(work)
        self.stop_reading(work)

    def stop_reading(self, work: LeaseWork) -> None:
        """Ends fetching a lease, with all its cursors."""
        if work.restored:
            self.intake.remove(work.head)
        if self._behind is not None:
            for older in work.behind:
                self._behind.remove(older)

    async def close(self) -> None:
        """Stops loops and clients, whatever state the cluster is in."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.ended()
        await self.intake.close()
        if self._behind is not None:
            await self._behind.close()
        await self._spill.close()
        await self.offsets.close()
        await self.admin.close()

    # --- settling records

    def park(self, record: Record, delay_seconds: float) -> None:
        """Brings the record back after a wait."""
        self._retries.park(record, delay_seconds)

    def write_dead_letter(self, record: Record, error: BaseException | str) -> None:
        """Copies the record to its stream's dlq lane."""
        self._dead_letters.write(record, error)
