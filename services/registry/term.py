"""One term of leadership: everything that exists only while this replica leads, started and ended together."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from braid.kernel.ports import Kafka
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from services.registry.health.rehearsals import Rehearsals
from services.registry.histories import STREAMS
from services.registry.kafka.clients import Access
from services.registry.liveness.own_lateness import Lateness
from services.registry.liveness.producer_sessions import Sessions
from services.registry.liveness.witnesses import Users, Witnesses, users_of
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.clusters.thresholds import Thresholds
from services.registry.model.rebalances import BalanceRules
from services.registry.model.stream_events import FailoverBlocked, FailoverUnblocked, StreamDeleted
from services.registry.model.streams import Stream
from services.registry.ownership.mark_keeper import MarkKeeper
from services.registry.ownership.mark_log import MarkLogs
from services.registry.ownership.restoration import Restoration
from services.registry.peers import Peers
from services.registry.reconciler.balancer import Balancer
from services.registry.reconciler.client_quotas import QuotaKeeper
from services.registry.reconciler.copies import CopiesKeeper
from services.registry.reconciler.drills import DrillJudge
from services.registry.reconciler.gauges import Gauges
from services.registry.reconciler.log_ends import EndsReader
from services.registry.reconciler.loop import Reconciler
from services.registry.reconciler.measurer import Measurer
from services.registry.reconciler.prober import Prober
from services.registry.term_tasks import Signal
from services.registry.watches.clusters import Readers
from services.registry.watches.routes import Producers

_OF_BLOCKS = (FailoverBlocked, FailoverUnblocked, StreamDeleted)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Intervals, in seconds, that tests and simulation shorten."""

    producer_session_seconds: float
    probe_interval_seconds: float
    probe_timeout_seconds: float
    balance: BalanceRules = field(default_factory=BalanceRules)


class Term:
    """Runs the reconciler and the prober, and holds producers' sessions and consumers' reports on clusters.

    Attributes:
        changed: Fires at every change of a history.
        placing: A lock held from reading clusters to the append that places a channel on one, records it as empty or
            deletes it.
    """

    def __init__(self, replica: Replica, kafka: Kafka, peers: Peers, tuning: Tuning, gauges: Gauges) -> None:
        """Prepares a term for the leadership held now. Raises `NotLeader`."""
        self._replica = replica
        self._gauges = gauges
        self.changed = Signal()
        self.placing = asyncio.Lock()
        self.peers = peers
        self.access = Access(kafka)
        began = replica.host.clock.elapsed()
        self.sessions = Sessions(tuning.producer_session_seconds, replica.leader_epoch, began)
        witnesses, lateness = Witnesses(), Lateness(began)
        self.marks = MarkLogs(replica.mesh, replica.host.clock)
        self.keeper = MarkKeeper(replica, self.access, self.marks)
        self.restoration = Restoration(replica, self.access, self.marks, peers)
        self.copies = CopiesKeeper(replica, self.access)
        self.quotas = QuotaKeeper(replica, self.access)
        self.measurer = Measurer(replica, self.access, gauges)
        self.ends = EndsReader(replica, self.access, self.sessions.ends)
        self.reconciler = Reconciler(
            replica,
            self.access,
            self.marks,
            peers,
            self.sessions,
            self.placing,
            self._broken,
            self._answering,
            self._loads,
        )
        self.balancer = Balancer(replica, tuning.balance, self.reconciler.world, self.placing, gauges)
        rehearsals, usual = Rehearsals(), Thresholds(look_timeout_seconds=tuning.probe_timeout_seconds)
        self.producers = Producers(
            *(replica, self.sessions, witnesses, rehearsals, lateness, self.changed),
            self.reconciler.producers_moved,
            gauges.refuse_evidence,
        )
        self.drills = DrillJudge(
            replica, rehearsals, lateness, usual, tuning.probe_interval_seconds, self.reconciler.wake
        )
        self.readers = Readers(replica, witnesses, lateness, gauges.refuse_evidence)
        self.prober = Prober(
            replica,
            self.access,
            witnesses,
            lateness,
            usual,
            interval_seconds=tuning.probe_interval_seconds,
            ask=self._ask,
            on_broken=self.reconciler.wake,
        )

    async def run(self) -> None:
        """Leads until cancelled."""
        unsubscribe = self._replica.aggregates.subscribe(self._on_change)
        self._show_blocked()
        tasks, instance = self._replica.host.tasks, self._replica.instance
        running = [
            tasks.spawn(self.prober.run(), f"{instance} prober"),
            tasks.spawn(self.measurer.run(), f"{instance} measurer"),
            tasks.spawn(self.ends.run(), f"{instance} ends of logs"),
            tasks.spawn(self.keeper.run(), f"{instance} marks"),
            tasks.spawn(self.restoration.run(), f"{instance} restoration"),
            tasks.spawn(self.copies.run(), f"{instance} copies"),
            tasks.spawn(self.drills.run(), f"{instance} drills"),
            tasks.spawn(self.quotas.run(), f"{instance} quotas"),
        ]
        try:
            await self.restoration.first()
            running.append(tasks.spawn(self.balancer.run(), f"{instance} balance"))
            await self.reconciler.run()
        finally:
            unsubscribe()
            self._gauges.show_blocked(())
            self.changed.fire()
            self.readers.close()
            for task in running:
                task.cancel()
                await task.ended()
            await self.access.close()

    def _ask(self, cluster: str) -> Users:
        """Asks the producers and consumers of a cluster; each host counts once, whichever process answers for it."""
        writing = self.producers.ask(cluster)
        return users_of(writing, self.readers.ask(cluster, writing))

    def _broken(self) -> Mapping[tuple[str, str], str]:
        return {**self.drills.broken, **self.prober.broken}

    def _loads(self) -> Mapping[str, MeasuredLoad]:
        return self.measurer.loads

    def _answering(self) -> Collection[str]:
        return self.prober.answering()

    def _on_change(self, change: Change | Reloaded) -> None:
        if isinstance(change, Change) and change.history.kind == STREAMS.name:
            assert isinstance(change.state, Stream)
            self.producers.routes_changed(change.state, change.events)
            self.reconciler.traces.changed(change)
        if isinstance(change, Reloaded) or any(isinstance(each.event, _OF_BLOCKS) for each in change.events):
            self._show_blocked()
        self.reconciler.wake()
        self.copies.wake()
        self.changed.fire()

    def _show_blocked(self) -> None:
        self._gauges.show_blocked(self._replica.aggregates.states(STREAMS).values())
