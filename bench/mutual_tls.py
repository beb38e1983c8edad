"""Calls and heartbeats over mutual TLS beside plaintext: `python -m bench.mutual_tls`.

One process serves and calls, over real gRPC on this machine, so the CPU compared is that of both ends. A unary call has
64 bytes each way; a heartbeat is a message on an open stream and its answer. Connections are open before: how long one
takes is a fact beside the tables.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.harness.arguments import asked
from bench.harness.contest import play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.api.mesh.v1.event_pb2 import EventRecord
from braid.host.tls.files import TlsFiles
from braid.kernel.ports import Caller, CallOptions, DuplexServing, RpcChannel, RpcService
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import duplex, unary
from testbed.authority import Authority

PLAINTEXT: Final = "plaintext"
AGAIN: Final = "plaintext, again"
MUTUAL: Final = "mutual TLS"
OPTIONS: Final = CallOptions(30.0, "", "default", "")
SERVICE: Final = "braid.bench.v1.EchoService"
MESSAGE: Final = EventRecord(data=b"x" * 64)
CONNECTIONS: Final = 20  # opened one after the other, for the fact beside the tables


async def _echo(request: EventRecord, caller: Caller) -> EventRecord:
    return request


async def _beat(stream: DuplexServing) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


def service() -> RpcService:
    """The service that both servers of the benchmark offer, in plaintext and over mutual TLS."""
    return RpcService(
        SERVICE, {f"/{SERVICE}/Echo": unary(EventRecord, _echo)}, {}, {f"/{SERVICE}/Beat": duplex(EventRecord, _beat)}
    )


async def calls(channel: RpcChannel, units: int) -> int:
    """Unary calls, one after the other."""
    for _ in range(units):
        await channel.unary(f"/{SERVICE}/Echo", MESSAGE, EventRecord, OPTIONS)
    return units


async def beats(channel: RpcChannel, units: int) -> int:
    """Heartbeats on one stream, each answered before the next."""
    stream = channel.duplex(f"/{SERVICE}/Beat", EventRecord, OPTIONS)
    for _ in range(units):
        await stream.send(MESSAGE)
        await stream.receive()
    await stream.close()
    return units


async def connecting_ms(transport: GrpcTransport, address: str) -> float:
    """Milliseconds from a new connection to its first answer."""
    begun = time.perf_counter()
    for _ in range(CONNECTIONS):
        channel = transport.channel(address)
        await channel.unary(f"/{SERVICE}/Echo", MESSAGE, EventRecord, OPTIONS)
        await channel.close()
    return (time.perf_counter() - begun) * 1_000 / CONNECTIONS


async def contest(units: int, rounds: int, directory: Path) -> list[Table]:
    """Plays both kinds of work."""
    authority = Authority.make()
    files = TlsFiles(authority.service(directory / "server")), TlsFiles(authority.client(directory / "client"))
    async with AsyncExitStack() as stack:
        ways: dict[str, tuple[GrpcTransport, str]] = {}
        for name, server_files, client_files in ((PLAINTEXT, None, None), (MUTUAL, *files)):
            server = await GrpcTransport(server_files).serve("127.0.0.1:0", service())
            stack.push_async_callback(server.stop, 0.0)
            ways[name] = GrpcTransport(client_files), server.address
        told = {
            f"a connection and its first call, {name}": f"{await connecting_ms(*way):.1f} ms"
            for name, way in ways.items()
        }
        ways[AGAIN] = ways[PLAINTEXT]
        channels = {name: ways[name][0].channel(ways[name][1]) for name in (PLAINTEXT, AGAIN, MUTUAL)}
        for channel in channels.values():
            stack.push_async_callback(channel.close)
        return [
            await played("tls_calls", "call", calls, channels, units, rounds, told),
            await played("tls_heartbeats", "heartbeat", beats, channels, units, rounds, told),
        ]


async def played(
    name: str,
    unit: str,
    work: Callable[[RpcChannel, int], Awaitable[int]],
    channels: dict[str, RpcChannel],
    units: int,
    rounds: int,
    told: dict[str, str],
) -> Table:
    """One table."""
    samples = await play({each: lambda way=way: work(way, units) for each, way in channels.items()}, rounds)  # type: ignore[misc]
    found = rows(samples, PLAINTEXT, "cpu")
    return Table(name, unit, "cpu", verdict(found, AGAIN), told, found, made_with())


def main() -> int:
    """Runs the benchmark; 1 when a run is void."""
    how = asked(__doc__, units=5_000, quick_units=200)
    with tempfile.TemporaryDirectory(prefix="braid-tls-") as directory:
        tables = asyncio.run(contest(how.units, how.rounds, Path(directory)))
    for table in tables:
        table.publish(how.directory)
    return int(any(table.verdict for table in tables) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
