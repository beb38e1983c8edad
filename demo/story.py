"""The acts of the demo, in order. Faults are triggered by how far the telemetry has come, never by time."""

import asyncio
import os
import signal
import time
from functools import partial
from typing import Final

import braid
from braid.api.dlq.v1.dead_letter_pb2 import DeadLetter
from braid.api.dlq.v1.replay_pb2 import ReplayState
from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.kernel.errors import Unavailable
from demo.control import LANES, Control, active_cluster, serving, undrained
from demo.flood import Flood
from demo.lag import LagWatch, worded
from demo.plan import BACKLOG, BACKLOG_MIN, CLUSTER_DIES_AT, CLUSTER_RETURNS_AFTER, MEMBER_DIES_AT, POISON_AT, Plan
from demo.proof import ledger
from demo.proof.evidence import Evidence
from demo.proof.table import compare, rows_in
from demo.proof.verdict import Scenes
from demo.stage import Bar, DemoFailed, Stage
from demo.traffic.member import PAUSED_LANE
from demo.traffic.shipper import STREAM
from devmesh.documents import Ready
from devmesh.mesh import DevMesh
from devmesh.toolchain.jars import KAFKA_VERSION

CLUSTERS: Final = ("east", "west")
MEMBERS: Final = ("member-1", "member-2", "member-3")
GROUP: Final = "indexer"
EVENT_STORE: Final = "event-store"
SHARES: Final = {"live": 8, "bulk": 2}

# They end a story that hangs. A machine whose host withholds its cores for a minute only takes longer; a process that
# ended is noticed at once.
_START_SECONDS: Final = 180.0
_FLOW_SECONDS: Final = 180.0  # plus what the slowest machine needs for the records
_SLOWEST_PER_S: Final = 300
_FAULT_SECONDS: Final = 180.0
_DRAIN_SECONDS: Final = 300.0
_END_SECONDS: Final = 180.0
_TABLE_SECONDS: Final = 300.0
_SPARK_SECONDS: Final = 300.0
_BUSY_NS: Final = 1_000_000_000  # traffic within the last second is traffic

# What processes say. Not everything called `.log` below: Kafka's own segments lie in `mesh/clusters/*/data`.
LOGS: Final = ("mesh/*.log", "mesh/*/*/*.log", "*.log", "spans.jsonl")

_REGISTRY_LOG: Final = "mesh/services/registry-0/service.log"
_ASSIGNER_LOG: Final = "mesh/services/assigner-0/service.log"
_LAGMON_LOG: Final = "mesh/services/lagmon-0/service.log"
_DLQ_LOG: Final = "mesh/services/dlq-0/service.log"


class Story:
    """The acts that follow once the mesh is ready."""

    def __init__(self, plan: Plan, stage: Stage, scenes: Scenes, mesh: DevMesh, ready: Ready) -> None:
        self._plan = plan
        self._stage = stage
        self._display = stage.display
        self._evidence: Evidence = stage.evidence
        self._scenes = scenes
        self._mesh = mesh
        self._ready = ready
        self._alive = list(MEMBERS)
        self._table = stage.path("table")

    async def tell(self) -> None:
        """All acts. Raises `DemoFailed` or `BraidError` at the first that fails."""
        self._scenes.store = self._ready.store
        addresses = ", ".join(f"{name} on {each.bootstrap}" for name, each in self._ready.clusters.items())
        self._display.done(f"{addresses} (Kafka {KAFKA_VERSION}); histories in {self._ready.store}")
        self._display.note(_safety(self._ready))
        async with braid.connect(self._ready.endpoint, client_id="demo", tls=self._ready.user_tls) as mesh:
            control = Control(mesh, STREAM, self._stage.path("spans.jsonl"))
            await self._open(control)
            self._lag = LagWatch(control, GROUP)
            watching = asyncio.ensure_future(self._lag.run())
            flooding = asyncio.ensure_future(Flood(self._stage, self._scenes, self._ready).play())
            try:
                await self._poison_record(control)
                await self._member_dies()
                await flooding
                await self._cluster_dies(control)
                await self._move_home(control)
                await self._close()
            finally:
                watching.cancel()
                flooding.cancel()
                await asyncio.gather(watching, flooding, return_exceptions=True)

    # --- acts

    async def _open(self, control: Control) -> None:
        await control.create()
        lanes = " and ".join(f"{name} ({count} partitions)" for name, count in LANES.items())

        async def routed() -> str | None:
            channels = await control.channels()
            return active_cluster(channels, "live") if all(active_cluster(channels, each) for each in LANES) else None

        carrier = await self._stage.until_told("a route of every lane", _START_SECONDS, routed, look=_REGISTRY_LOG)
        self._display.done(f"stream {STREAM} with lanes {lanes}, carried by {carrier}")
        if self._plan.event_store:
            await self._start_event_store()
        else:
            self._display.note("without the Spark job and its event-store table, as asked")
        self._start_processes()
        await self._stage.until(
            "the first acknowledged observation", _START_SECONDS, lambda: self._acked() or None, look="shipper.log"
        )
        await self._stage.until(
            "work at every member", _START_SECONDS, lambda: self._all_work() or None, look="member-1.log"
        )
        self._display.done("this machine's telemetry flows: processes, threads, counters, logs, spans")
        self._display.note(f"{len(MEMBERS)} members consume it, each into a file of its own, synced before the commit")

    def _start_processes(self) -> None:
        stage, endpoint = self._stage, self._ready.endpoint
        pipe = stage.path("ledger.pipe")
        os.mkfifo(pipe)
        stage.start("ledger", "-I", "-S", ledger.__file__, str(pipe), str(stage.path("ledger.txt")))
        stage.follow("ledger.txt", self._evidence.ledger)
        for member in MEMBERS:
            self._start_member(member)
            stage.follow(f"{member}.sink", partial(self._evidence.sink, member))
        logs = [str(stage.path(pattern)) for pattern in LOGS]
        target = ("--endpoint", endpoint, "--ledger", str(pipe), "--rate", str(self._plan.rate_per_s))
        stage.start("shipper", "-m", "demo.traffic.shipper", *target, *logs)

    async def _start_event_store(self) -> None:
        checkpoint = str(self._stage.path("checkpoint"))
        source = ("--endpoint", self._ready.endpoint, "--stream", STREAM, "--group", EVENT_STORE)
        target = ("--table", str(self._table), "--checkpoint", checkpoint)
        self._stage.start(EVENT_STORE, "-m", "pipelines.event_store", *source, *target)
        await self._stage.until(
            "a Spark job that is a member of its group",
            _SPARK_SECONDS,
            lambda: self._event_store_ready() or None,
            look=f"{EVENT_STORE}.log",
        )
        self._display.done("a Spark job, in a group of its own, merges the stream into an event-store table")

    def _event_store_ready(self) -> bool:
        """Whether it has joined: a group that joins after a channel is drained has no part in that channel."""
        return "ready: stream" in self._stage.path(f"{EVENT_STORE}.log").read_text(errors="replace")

    def _start_member(self, name: str) -> None:
        shares = [text for lane, share in SHARES.items() for text in ("--lane", f"{lane}={share}")]
        sink = str(self._stage.path(f"{name}.sink"))
        command = ("-m", "demo.traffic.member", "--endpoint", self._ready.endpoint, "--group", GROUP, "--sink", sink)
        self._stage.start(name, *command, *shares)

    async def _poison_record(self, control: Control) -> None:
        await self._flow(POISON_AT)
        self._stage.tell("shipper", signal.SIGUSR1)

        async def written() -> DeadLetter | None:
            letters = await control.letters() if self._evidence.poisoned else []
            self._evidence.dead_letters(letter.origin.id for letter in letters)
            return letters[0] if self._evidence.poisoned <= self._evidence.dead_lettered and letters else None

        letter = await self._stage.until_told(
            "the dead letter of a damaged record", _FAULT_SECONDS, written, look=_DLQ_LOG
        )
        self._display.done(
            f"a damaged record failed {letter.attempts} times ({letter.error_class}) and lies in the dlq lane; "
            "other records went on"
        )
        await self._mend(control, f"error={letter.error_class} and group={letter.group}")

    async def _mend(self, control: Control, where: str) -> None:
        self._tell_members(signal.SIGHUP)
        replay = await control.replay(where)
        self._display.act(f"the handler is fixed; dead letters where {where} are replayed")

        async def done() -> bool | None:
            status = (await control.replayed(replay.id)).status
            if status.state in (ReplayState.REPLAY_STATE_FAILED, ReplayState.REPLAY_STATE_CANCELLED):
                raise DemoFailed(f"the replay ended: {status.reason}", _DLQ_LOG)
            ended = status.state == ReplayState.REPLAY_STATE_DONE
            return (ended and self._evidence.replayed == self._evidence.poisoned) or None

        await self._stage.until_told("the replayed record at a member", _FAULT_SECONDS, done, look=_DLQ_LOG)
        self._display.done("the record was sent again, to the group that gave it up, and handled")

    async def _member_dies(self) -> None:
        await self._flow(MEMBER_DIES_AT)
        victim, leases = await self._stage.until(
            "a member under load", _FAULT_SECONDS, self._busy_member, look=_ASSIGNER_LOG
        )
        start = len(self._evidence.handled)
        self._alive.remove(victim)
        killed_ns = self._stage.kill(victim)
        self._display.fault(f"{victim} is killed with -9; it held {len(leases)} partitions")
        taken_ns = await self._stage.until(
            f"a survivor handling a record of {victim}'s partitions",
            _FAULT_SECONDS,
            lambda: self._evidence.first_takeover(victim, leases, killed_ns, start),
            look=_ASSIGNER_LOG,
        )
        self._scenes.takeover_ms = (taken_ns - killed_ns) / 1e6
        self._display.done(f"another member handled a record of them after {self._scenes.takeover_ms:.0f} ms")

    async def _cluster_dies(self, control: Control) -> None:
        await self._flow(CLUSTER_DIES_AT)
        cluster = await self._stage.until(
            "a cluster under load", _FAULT_SECONDS, self._busy_cluster, look="shipper.log"
        )
        await self._backlog(cluster)
        victims = serving(await control.channels(), cluster)
        lanes = {channel.lane for channel in victims} & LANES.keys()
        self._scenes.cluster = cluster
        start, killed_ns = len(self._evidence.ack_log), time.monotonic_ns()
        await self._mesh.kill(cluster)
        self._display.fault(f"cluster {cluster} is killed with -9, under load of lanes {' and '.join(sorted(lanes))}")
        await self._elsewhere(cluster, lanes, killed_ns, start)
        await self._tell_lag(cluster)
        self._tell_members(signal.SIGUSR2)
        await self._cluster_returns(control, cluster, [channel.name for channel in victims])

    async def _backlog(self, cluster: str) -> None:
        """Lets a tail grow on the cluster: a lane that nobody works on for a moment, as in a deployment."""
        self._tell_members(signal.SIGUSR1)
        goal = max(BACKLOG_MIN, round(self._plan.records * BACKLOG))
        waiting = await self._stage.until(
            f"{goal:,} records that wait on {cluster}",
            _FAULT_SECONDS,
            lambda: waiting if (waiting := self._evidence.stranded(cluster)) >= goal else None,
            look="member-1.log",
        )
        self._display.act(f"the members' lane {PAUSED_LANE} pauses, as in a deployment: {waiting:,} records wait")

    async def _elsewhere(self, cluster: str, lanes: set[str], killed_ns: int, start: int) -> None:
        def moved() -> list[int] | None:
            found = self._evidence.first_acks_elsewhere(cluster, killed_ns, start)
            return [found[lane] for lane in lanes] if lanes <= found.keys() else None

        moments = await self._stage.until(
            "acknowledgements of every lane on another cluster", _FAULT_SECONDS, moved, look=_REGISTRY_LOG
        )
        first_ms, last_ms = ((at_ns - killed_ns) / 1e6 for at_ns in (min(moments), max(moments)))
        self._scenes.first_ack_elsewhere_ms = first_ms
        self._display.done(
            f"producers write elsewhere: first acknowledgement after {first_ms:.0f} ms, on every lane {last_ms:.0f} ms"
        )

    async def _tell_lag(self, cluster: str) -> None:
        """Shows what lagmon knows of the cluster that nobody can ask any more."""

        def stale() -> list[Lag] | None:
            rows = self._lag.on(cluster)
            return rows if rows and all(row.stale for row in rows) else None

        rows = await self._stage.until("lagmon to see the outage", _FAULT_SECONDS, stale, look=_LAGMON_LOG)
        self._display.note(f"lag of group {GROUP} on {cluster}, from its commits alone: {worded(rows)}")

    async def _cluster_returns(self, control: Control, cluster: str, channels: list[str]) -> None:
        await self._flow(self._acked() / self._plan.records + CLUSTER_RETURNS_AFTER)
        waiting = self._evidence.stranded(cluster)
        self._display.act(f"cluster {cluster} starts again; {waiting:,} acknowledged records are only there")
        await self._mesh.start(cluster)
        self._scenes.returned = True
        returned = time.monotonic()
        self._display.done(f"cluster {cluster} is back")
        await self._drained(control, channels)
        self._scenes.drained_ms = (time.monotonic() - returned) * 1000
        self._display.done(f"its remaining records are handled: {len(channels)} channels sealed, read, DRAINED")

    async def _move_home(self, control: Control) -> None:
        begun_ns = time.monotonic_ns()
        channels = await control.move(self._scenes.cluster)
        await self._drained(control, channels)
        stall_ms = self._evidence.longest_stall_ms(begun_ns, time.monotonic_ns(), LANES)
        self._scenes.move_stall_ms = stall_ms
        self._display.done(f"the stream moved back as planned; the longest pause of its producer was {stall_ms:.0f} ms")

    async def _close(self) -> None:
        await self._flow(1.0)
        self._stage.will_end("ledger")
        await self._stage.end("shipper", _END_SECONDS)
        await self._stage.end("ledger", _END_SECONDS)
        self._stage.look()
        total = self._acked()
        await self._stage.until(
            "every acknowledged record to be processed",
            _END_SECONDS,
            lambda: None if self._evidence.unsettled() else True,
            look="member-1.log",
            bar=lambda: Bar(total - len(self._evidence.unsettled()), total, "the rest is processed"),
        )
        await self._stage.until(
            "lagmon to see no lag",
            _END_SECONDS,
            lambda: self._lag.final_seconds,
            look=_LAGMON_LOG,
            bar=lambda: Bar(total, total, f"lag: {self._lag.unanswered or worded(self._lag.rows)}"),
        )
        self._scenes.lag_seconds_final = self._lag.final_seconds
        self._scenes.lag_seconds_max = self._lag.worst.lag_seconds if self._lag.worst else 0.0
        if self._plan.event_store:
            await self._table_complete(total)
        for process in self._alive:
            await self._stage.end(process, _END_SECONDS)
        self._stage.look()
        compared = "ledger, sinks and table" if self._plan.event_store else "ledger and sinks"
        self._display.done(f"the telemetry ended; {compared} are compared")
        if self._plan.event_store:
            self._scenes.table = await asyncio.to_thread(compare, self._table, self._evidence.acked)

    async def _table_complete(self, total: int) -> None:
        await self._stage.until(
            "every acknowledged record in the event store",
            _TABLE_SECONDS,
            lambda: rows_in(self._table) >= total or None,
            look=f"{EVENT_STORE}.log",
            bar=lambda: Bar(rows_in(self._table), total, "the event store's table catches up"),
        )
        await self._stage.end(EVENT_STORE, _END_SECONDS)

    # --- what acts have in common

    async def _flow(self, part: float) -> None:
        """Waits until this part of the wanted observations is acknowledged."""
        goal = round(self._plan.records * part)
        await self._stage.until(
            f"{goal:,} acknowledged records",
            _FLOW_SECONDS + (goal - self._acked()) / _SLOWEST_PER_S,
            lambda: self._acked() >= goal or None,
            look="shipper.log",
            bar=self._bar,
        )

    async def _drained(self, control: Control, names: list[str]) -> None:
        waits = ["the first answer"]

        async def drained() -> bool | None:
            try:
                waits[:] = undrained(await control.channels(), names)
            except Unavailable as error:
                waits[:] = [error.message]
            return None if waits else True

        try:
            await self._stage.until_told(
                "DRAINED channels",
                _DRAIN_SECONDS,
                drained,
                look=_REGISTRY_LOG,
                bar=lambda: self._bar()._replace(text=f"draining: {waits[0]}"),
            )
        except DemoFailed as failure:
            raise DemoFailed(f"{failure} – {'; '.join(waits)}", failure.look) from failure

    def _tell_members(self, number: signal.Signals) -> None:
        for member in self._alive:
            self._stage.tell(member, number)

    def _acked(self) -> int:
        return len(self._evidence.acked)

    def _bar(self) -> Bar:
        acked, waiting = self._acked(), len(self._evidence.acked) - len(self._evidence.processed)
        text = f"{acked:,} acknowledged, {max(0, waiting):,} not yet processed"
        return Bar(acked, self._plan.records, text)

    def _all_work(self) -> bool:
        since_ns = time.monotonic_ns() - 10 * _BUSY_NS
        return all(self._evidence.busy_leases(member, since_ns) for member in MEMBERS)

    def _busy_member(self) -> tuple[str, dict[str, int]] | None:
        """The member whose partitions carried most of them traffic just now."""
        since_ns = time.monotonic_ns() - _BUSY_NS
        busy = {member: self._evidence.busy_leases(member, since_ns) for member in MEMBERS}
        member = max(busy, key=lambda name: len(busy[name]))
        return (member, busy[member]) if busy[member] else None

    def _busy_cluster(self) -> str | None:
        """The cluster that acknowledged most just now."""
        carriers = self._evidence.carriers(time.monotonic_ns() - _BUSY_NS)
        return carriers.most_common(1)[0][0] if carriers else None


def _safety(ready: Ready) -> str:
    if ready.tls is None:
        return "services speak plain text, and refuse nothing, as asked"
    return "services, members, producer and Spark job speak mutual TLS to one another; rights are enforced"
