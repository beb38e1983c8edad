"""A real member process that holds leases and consumes nothing: `python -m tests.support.lease_member ENDPOINT ID LOG`.

It appends a JSON line to LOG for everything it is told, with the machine's boot clock in seconds.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from braid.api.assigner.v1 import group_pb2, join_pb2
from braid.client.membership.lease_session import LeaseSession
from braid.client.records.delivery import OwnedLease
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import tls_of_environment
from braid.kernel.errors import BraidError
from braid.kernel.ports import Generation, Host
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient


class Log:
    """Writes down what the session says, and gives back at once what it is asked for."""

    def __init__(self, host: Host, path: Path) -> None:
        self._host = host
        self._file = path.open("a", buffering=1)
        self.session: LeaseSession | None = None

    def granted(self, leases: Sequence[OwnedLease]) -> None:
        """See `LeaseListener`."""
        for held in leases:
            self._write("granted", held)

    def lent(self, cluster: str, generation: Generation) -> None:
        """See `LeaseListener`."""

    def revoked(self, lease: OwnedLease, deadline_seconds: float) -> None:
        """See `LeaseListener`."""
        self._write("released", lease)
        assert self.session is not None
        self._host.tasks.spawn(self.session.release(lease.id, lease.epoch), "release")

    def lost(self, leases: Sequence[OwnedLease]) -> None:
        """See `LeaseListener`."""
        for held in leases:
            self._write("lost", held)

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
        sys.exit(str(error))

    def _write(self, what: str, held: OwnedLease) -> None:
        line = {"at": self._host.clock.elapsed(), "what": what, "lease": str(held.id), "epoch": held.epoch}
        self._file.write(json.dumps(line) + "\n")


async def main(endpoint: str, client_id: str, log: str) -> None:
    """Is a member until killed."""
    host = system_host()
    tls = tls_of_environment(os.environ)
    transport = GrpcTransport(TlsFiles(tls) if tls else None)
    assigner = ServiceClient(Directory(transport, host, [endpoint]), "assigner", host)
    spec = group_pb2.GroupSpec(streams=["logs"], lease_ms=1_000, ownership=group_pb2.OWNERSHIP_AT_LEAST_ONCE)
    hello = join_pb2.MemberHello(protocol_version=1, group="indexer", client_id=client_id, spec=spec)
    listener = Log(host, Path(log))
    session = listener.session = LeaseSession(
        host, assigner, hello, listener, loads=join_pb2.Heartbeat, exclusive=False
    )
    await session.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
