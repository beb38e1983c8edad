"""One term as leader: the service's membership on the dlq lanes, and every running replay. No rules."""

import asyncio

from braid.client.mesh import Mesh
from braid.kernel.errors import Unavailable
from braid.kernel.limits.dlq import DLQ_LOOK_SECONDS, REPLAYS_RUNNING_MAX
from braid.kernel.ports import Kafka, Task
from braid.kernel.timing.backoff import Backoff
from braid.runtime.histories.kinds import Change, Reloaded
from braid.runtime.replica import Replica
from braid.runtime.telemetry import DlqMetrics
from services.dlq.codec.events import REPLAYS
from services.dlq.domain.replay import State
from services.dlq.index.letter_index import LetterIndex
from services.dlq.index.tail import Tail
from services.dlq.peers import ChannelFollower, Groups, Streams
from services.dlq.reconciler.cluster_clients import ClusterClients
from services.dlq.reconciler.copies import Copies
from services.dlq.reconciler.member import Membership
from services.dlq.reconciler.replay import ReplayRun, Tools


class Term:
    """This replica's time as leader."""

    def __init__(
        self,
        replica: Replica,
        kafka: Kafka,
        index: LetterIndex,
        tail: Tail,
        follower: ChannelFollower,
        metrics: DlqMetrics,
    ) -> None:
        self._replica = replica
        self._kafka = kafka
        self._index = index
        self._tail = tail
        self._follower = follower
        self._metrics = metrics
        self._runs: dict[str, ReplayRun] = {}
        self._tasks: dict[str, Task] = {}
        self._changed = asyncio.Event()

    def waits_for(self, id: str) -> str:
        """Why a running job makes no progress; '' while it does."""
        run = self._runs.get(id)
        return run.waits_for if run is not None else ""

    async def run(self) -> None:
        """Runs the members and the jobs until cancelled."""
        replica = self._replica
        unsubscribe = replica.aggregates.subscribe(self._on_change)
        copies, clients = Copies(replica.host, self._kafka), ClusterClients(self._kafka)
        # Any replica tells of all others, this one too, wherever they move meanwhile.
        mesh = Mesh(replica.host, self._kafka, replica.transport, [replica.address], replica.instance, "")
        try:
            await _enter(mesh, replica)
            groups = Groups(replica.client("assigner"))
            tools = Tools(
                replica,
                self._index,
                self._tail,
                self._follower,
                copies,
                clients,
                Streams(replica.client("registry")),
                groups,
                mesh,
                self._metrics,
            )
            member = Membership(replica, mesh, self._tail, self._follower, groups)
            self._tasks["member"] = replica.host.tasks.spawn(member.run(), f"{replica.instance} membership")
            while True:
                self._changed.clear()
                self._start_runs(tools)
                await self._wait()
        finally:
            unsubscribe()
            for task in list(self._tasks.values()):
                task.cancel()
            for task in list(self._tasks.values()):
                await task.ended()
            await copies.close()
            await clients.close()
            await mesh.__aexit__(None, None, None)

    def _on_change(self, change: Change | Reloaded) -> None:
        self._changed.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(DLQ_LOOK_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return

    def _start_runs(self, tools: Tools) -> None:
        """Starts waiting jobs, oldest first, up to the limit of concurrent jobs."""
        for id, replay in self._replica.aggregates.states(REPLAYS).items():
            if len(self._runs) >= REPLAYS_RUNNING_MAX:
                return
            if replay.state is State.RUNNING and replay.spec is not None and id not in self._runs:
                run = self._runs[id] = ReplayRun(tools, id)
                self._tasks[id] = self._replica.host.tasks.spawn(self._until_over(id, run), f"replay {id}")

    async def _until_over(self, id: str, run: ReplayRun) -> None:
        try:
            await run.run()
        finally:
            del self._runs[id], self._tasks[id]
            self._changed.set()


async def _enter(mesh: Mesh, replica: Replica) -> None:
    """Opens the mesh once this replica serves."""
    backoff = Backoff(replica.host)
    while True:
        try:
            await mesh.__aenter__()
        except Unavailable:
            await backoff.wait()
        else:
            return
