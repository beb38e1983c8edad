"""The dlq service for the runtime: its RPCs, its index, and its loops as leader and follower."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.kernel.access.requests import Lookup
from braid.kernel.limits.dlq import DLQ_COUNT_SECONDS
from braid.kernel.ports import Kafka, RpcService
from braid.rpc.methods import method_path, service_path, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.runtime.telemetry import DlqMetrics, make_dlq_metrics
from services.dlq.codec.events import REPLAYS
from services.dlq.index.letter_index import LetterIndex
from services.dlq.index.sent_letters import SentLetters
from services.dlq.index.tail import Tail
from services.dlq.peers import ChannelFollower, Groups, Streams
from services.dlq.reconciler.cluster_clients import ClusterClients
from services.dlq.reconciler.copies import Copies
from services.dlq.reconciler.group_commits import GroupCommits
from services.dlq.reconciler.job_histories import JobHistories
from services.dlq.reconciler.term import Term
from services.dlq.servicer.letter_states import LetterStates
from services.dlq.servicer.letters import Letters
from services.dlq.servicer.replays import Replays


class Dlq:
    """A `runtime.service.Service` that owns replays and an index of dead letters. One instance serves one replica."""

    name = "dlq"
    kinds: Mapping[str, AnyKind] = MappingProxyType({REPLAYS.name: REPLAYS})

    def __init__(self, kafka: Kafka, index: Path, mesh: str) -> None:
        """Opens the index of the named mesh in the file `index`. Raises `Unavailable` if another process uses it."""
        self._kafka = kafka
        self._index = LetterIndex(index, mesh)
        self._follower: ChannelFollower | None = None
        self._tail: Tail | None = None
        self._copies: Copies | None = None
        self._clients: ClusterClients | None = None
        self._histories: JobHistories | None = None
        self._metrics: DlqMetrics | None = None
        self._term: Term | None = None

    def rpc(self, replica: Replica) -> RpcService:
        """The table of RPC handlers; called once, before serving."""
        streams = Streams(replica.client("registry"))
        follower = self._follower = ChannelFollower(replica.host, replica.client("registry"))
        tail = self._tail = Tail(replica.host, self._kafka, self._index, follower)
        copies = self._copies = Copies(replica.host, self._kafka)
        self._metrics = make_dlq_metrics(replica.metrics)
        clients = self._clients = ClusterClients(self._kafka)
        sent = SentLetters(self._index)
        self._histories = JobHistories(replica, sent, follower)
        groups, commits = Groups(replica.client("assigner")), GroupCommits(clients, follower)
        states = LetterStates(replica, sent, tail, commits, groups, streams)
        letters = Letters(replica, self._index, tail, follower, copies, streams, states)
        replays = Replays(
            replica, self._index, tail, streams, states, lambda id: self._term.waits_for(id) if self._term else ""
        )
        return RpcService(
            name=service_path(self.name),
            unary={
                _path("ListDeadLetters"): unary(api.ListDeadLettersRequest, letters.list_dead_letters),
                _path("GetDeadLetter"): unary(api.GetDeadLetterRequest, letters.get_dead_letter),
                _path("CreateReplay"): unary(api.CreateReplayRequest, replays.create_replay),
                _path("GetReplay"): unary(api.GetReplayRequest, replays.get_replay),
                _path("ListReplays"): unary(api.ListReplaysRequest, replays.list_replays),
                _path("PauseReplay"): unary(api.PauseReplayRequest, replays.pause_replay),
                _path("ResumeReplay"): unary(api.ResumeReplayRequest, replays.resume_replay),
                _path("CancelReplay"): unary(api.CancelReplayRequest, replays.cancel_replay),
            },
            server_stream={},
            duplex={},
        )

    def resources(self, replica: Replica) -> Lookup:
        """The streams that a replay is about: see `KnowsResources`."""
        return Lookup(stream_of_replay=lambda id: _stream_of_replay(replica, id))

    async def lead(self, replica: Replica) -> None:
        """Runs one term; cancelled the moment leadership ends."""
        assert self._tail and self._follower and self._metrics, "rpc() comes first"
        self._term = Term(replica, self._kafka, self._index, self._tail, self._follower, self._metrics)
        try:
            await self._term.run()
        finally:
            self._term = None

    async def follow(self, replica: Replica) -> None:
        """Updates the index, leading or not."""
        assert self._tail and self._follower and self._copies, "rpc() comes first"
        assert self._clients and self._histories, "rpc() comes first"
        spawn = replica.host.tasks.spawn
        tasks = [
            spawn(self._follower.run(), f"{replica.instance} channels"),
            spawn(self._tail.run(), f"{replica.instance} index"),
            spawn(self._histories.run(), f"{replica.instance} replays"),
        ]
        try:
            await self._count(replica)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                await task.ended()
            await self._copies.close()
            await self._clients.close()
            with contextlib.suppress(asyncio.CancelledError):
                await replica.host.tasks.run_blocking(self._index.close)

    async def _count(self, replica: Replica) -> None:
        assert self._metrics, "rpc() comes first"
        known: set[tuple[str, str]] = set()
        counted = -1
        while True:
            if counted == self._index.changes:
                await replica.host.clock.sleep(DLQ_COUNT_SECONDS)
                continue
            counted = self._index.changes
            counts = await replica.host.tasks.run_blocking(self._index.counts)
            for stream, group in known - counts.keys():
                self._metrics.dead_letters.remove(stream, group)
            for (stream, group), count in counts.items():
                self._metrics.dead_letters.labels(stream, group).set(count)
            known = set(counts)
            await replica.host.clock.sleep(DLQ_COUNT_SECONDS)


def _path(rpc: str) -> str:
    return method_path("dlq", rpc)


def _stream_of_replay(replica: Replica, id: str) -> str:
    spec = replica.aggregates.state(REPLAYS, id).spec
    return "" if spec is None else spec.stream
