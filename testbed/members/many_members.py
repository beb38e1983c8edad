"""Thousands of members that hold leases and consume nothing, over a few real connections to one assigner.

As a process: `python -m testbed.members.many_members ENDPOINT CONNECTIONS MEMBERS GROUPS shared|own`, with a
certificate where the environment names one. It joins them, some hundreds at a time; a line on its standard input asks
for one line of JSON (`Counts`) on its standard output.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from unittest.mock import patch

from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.client.membership.heartbeats import Heartbeats
from braid.client.membership.lease_session import CAPABILITIES, LeaseSession
from braid.client.records.delivery import OwnedLease
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import tls_of_environment
from braid.kernel.errors import BraidError
from braid.kernel.ports import Generation, Host
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient

JOINING_MAX = 500  # at a time


@dataclass
class Counts:
    """Counts of events since the last question.

    Attributes:
        welcomed: Members welcomed for the first time, in total.
        again: Further welcomes of members whose stream broke or was ended.
        heartbeats: Acknowledged heartbeats.
        answer_ms: How long their answers took.
        granted: Granted leases, in total.
        lost: Leases that were lost, not released.
        refused: Why members may not join.
    """

    welcomed: int = 0
    again: int = 0
    heartbeats: int = 0
    answer_ms: list[float] = field(default_factory=list)
    granted: int = 0
    lost: int = 0
    refused: list[str] = field(default_factory=list)


class Member:
    """A member whose session's calls are counted; it releases revoked leases at once."""

    def __init__(self, host: Host, counts: Counts) -> None:
        self.session: CountedSession | None = None
        self._host = host
        self._counts = counts

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """See `LeaseListener`."""
        self._counts.granted += len(leases)

    def lent(self, cluster: str, generation: Generation) -> None:
        """See `LeaseListener`."""

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """See `LeaseListener`."""
        assert self.session is not None
        self._host.tasks.spawn(self.session.release(lease.id, lease.epoch), "release")

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """See `LeaseListener`."""
        self._counts.lost += len(leases)

    def resumed(self, lane: str) -> None:
        """See `LeaseListener`."""

    def split(self, asked: join_pb2.SplitBacklog) -> None:
        """See `LeaseListener`."""

    @property
    def divides_work(self) -> bool:
        """See `LeaseListener`."""
        return False

    def work_divided(self, told: join_pb2.WorkDivision) -> None:
        """See `LeaseListener`."""

    def busy(self) -> bool:
        """See `LeaseListener`."""
        return False

    def refused(self, error: BraidError) -> None:
        """See `LeaseListener`."""
        self._counts.refused.append(str(error))


class CountedSession(LeaseSession):
    """The SDK's session, which counts its welcomes and acknowledged heartbeats."""

    counts: Counts

    def count(self, counts: Counts) -> None:
        """Begins to count."""
        self.counts, extend = counts, self._held.extend

        def counted(sent_at: float) -> None:
            counts.heartbeats += 1
            counts.answer_ms.append((self._host.clock.elapsed() - sent_at) * 1e3)
            extend(sent_at)

        patch.object(self._held, "extend", counted).start()

    def _welcomed(self, welcome: join_pb2.MemberWelcome, started_at: float) -> list[join_pb2.ReleasedLease]:
        if self._joined.is_set():
            self.counts.again += 1
        else:
            self.counts.welcomed += 1
        return super()._welcomed(welcome, started_at)


class Members:
    """Many members over a few connections, as if of that many processes."""

    def __init__(self, endpoint: str, connections: int, *, shared: bool) -> None:
        """Prepares members; `shared` is whether the heartbeats of a connection travel together."""
        self.counts = Counts()
        self.sessions: list[CountedSession] = []
        self._host = system_host()
        tls = tls_of_environment(os.environ)
        files = TlsFiles(tls) if tls is not None else None
        self._directories = [Directory(GrpcTransport(files), self._host, [endpoint]) for _ in range(connections)]
        self._clients = [ServiceClient(each, "assigner", self._host) for each in self._directories]
        self._heartbeats = [Heartbeats(self._host, client) if shared else None for client in self._clients]
        self._tasks: list[asyncio.Task[None]] = []

    def join(self, members: int, groups: int) -> None:
        """Begins to join them all."""
        self._tasks.append(asyncio.ensure_future(self._join(members, groups)))

    async def _join(self, members: int, groups: int) -> None:
        """Joins all members. One process plays them all: if it fell far behind, it would measure only its own
        delays."""
        for number in range(members):
            while number - self.counts.welcomed >= JOINING_MAX:
                await self._host.clock.sleep(0.01)
            session = self._session(number, f"group-{number % groups}")
            self.sessions.append(session)
            self._tasks.append(asyncio.ensure_future(session.run()))

    def _session(self, number: int, group: str) -> CountedSession:
        spec = group_pb2.GroupSpec(streams=["logs"])
        hello = join_pb2.MemberHello(
            protocol_version=1, capabilities=CAPABILITIES, group=group, client_id=f"host-{number}", spec=spec
        )
        at = number % len(self._clients)
        member = Member(self._host, self.counts)
        session = member.session = CountedSession(
            self._host,
            self._clients[at],
            hello,
            member,
            loads=join_pb2.Heartbeat,
            exclusive=False,
            heartbeats=self._heartbeats[at],
        )
        session.count(self.counts)
        return session

    @property
    def carried(self) -> int:
        """The number of members whose heartbeats travel with others' now."""
        return sum(len(each._carried) for each in self._heartbeats if each is not None)

    def take(self) -> Counts:
        """The counts since the last call; for welcomes and grants, since the beginning."""
        taken = replace(self.counts)
        self.counts.again = self.counts.heartbeats = self.counts.lost = 0
        self.counts.answer_ms, self.counts.refused = [], []
        return taken

    async def close(self) -> None:
        """Breaks all connections, as if the processes were killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for heartbeats in self._heartbeats:
            if heartbeats is not None:
                await heartbeats.close()
        for directory in self._directories:
            await directory.close()


async def main(endpoint: str, connections: str, members: str, groups: str, way: str) -> None:
    """Joins, answers questions, and ends with its standard input."""
    joined = Members(endpoint, int(connections), shared=way == "shared")
    joined.join(int(members), int(groups))
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        taken = {**asdict(joined.take()), "carried": joined.carried}
        print(json.dumps(taken), flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
