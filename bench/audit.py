"""Recorded calls beside calls that are not: `python -m bench.audit`.

One process serves and calls, over real gRPC on this machine; records go to a SQLite store meanwhile, as in a replica.
A call is a change (`DeleteStream`, which has one resource and a command) that does nothing. Beside the table: the 99th
percentile of a call's time in each round, with records and without, and of the time that recording itself takes.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.harness.arguments import asked
from bench.harness.contest import play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.api.registry.v1.registry_service_pb2 import DeleteStreamRequest
from braid.host.system import system_host
from braid.kernel.access.requests import Lookup
from braid.kernel.audit.forms import Reads
from braid.kernel.ports import Caller, CallOptions, Endpoint, Host, RpcChannel, RpcService
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import method_path, service_path, unary
from braid.runtime.audit.recorded import recorded
from braid.runtime.audit.recorder import Recorder
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.audit.writer import AuditWriter
from braid.runtime.opening import open_store
from braid.runtime.telemetry import make_metrics

PLAIN: Final = "not recorded"
AGAIN: Final = "not recorded, again"
RECORDED: Final = "recorded"
OPTIONS: Final = CallOptions(30.0, "01J9Z3N8Q4W5E6R7T8Y9U0I1O2", "default", "web-1")
PATH: Final = method_path("registry", "DeleteStream")
PERCENT: Final = 100


async def _nothing(request: DeleteStreamRequest, caller: Caller) -> DeleteStreamRequest:
    return request


def service() -> RpcService:
    """The method that all contestants call."""
    return RpcService(service_path("registry"), {PATH: unary(DeleteStreamRequest, _nothing)}, {}, {})


class TimedRecorder(Recorder):
    """A recorder that notes how long it holds up each call."""

    seconds: Final[list[float]] = []

    def done(self, rpc: str, request: object, caller: Caller) -> None:
        """See `Recorder.done`."""
        begun = time.perf_counter()
        super().done(rpc, request, caller)
        self.seconds.append(time.perf_counter() - begun)


async def calls(channel: RpcChannel, units: int, rounds: list[float]) -> int:
    """Calls, one after the other; notes the 99th percentile of the time that they took."""
    seconds: list[float] = []
    for number in range(units):
        begun = time.perf_counter()
        await channel.unary(PATH, DeleteStreamRequest(name=f"s-{number}"), DeleteStreamRequest, OPTIONS)
        seconds.append(time.perf_counter() - begun)
    rounds.append(last_percent(seconds))
    return units


async def contest(units: int, rounds: int, directory: Path) -> Table:
    """Plays calls with and without records."""
    host, percentiles = system_host(), defaultdict[str, list[float]](list)
    async with AsyncExitStack() as stack:
        services = {PLAIN: service(), RECORDED: await _recorded(stack, host, directory)}
        channels: dict[str, RpcChannel] = {}
        for name, each in services.items():
            server = await GrpcTransport().serve("127.0.0.1:0", each)
            stack.push_async_callback(server.stop, 0.0)
            channels[name] = GrpcTransport().channel(server.address)
            stack.push_async_callback(channels[name].close)
        channels[AGAIN] = channels[PLAIN]
        samples = await play(
            {
                name: lambda name=name: calls(channels[name], units, percentiles[name])  # type: ignore[misc]
                for name in (PLAIN, AGAIN, RECORDED)
            },
            rounds,
        )
    found = rows(samples, PLAIN, "cpu")
    return Table("audit", "call", "cpu", verdict(found, AGAIN), facts(percentiles), found, made_with())


async def _recorded(stack: AsyncExitStack, host: Host, directory: Path) -> RpcService:
    """The service whose calls are recorded, while the writer of a replica runs."""
    store = open_store(f"sqlite://{directory}/store.db", host)
    stack.push_async_callback(store.close)
    metrics = make_metrics("registry", "registry-0")
    recorder = TimedRecorder("registry", host.clock, Lookup(), Reads.NONE, metrics)
    endpoint = Endpoint("registry", "registry-0", "")
    writer = AuditWriter(store, host, endpoint, 2.0, recorder, AuditSettings(), metrics, None)
    stack.push_async_callback(writer.close)
    running = asyncio.ensure_future(writer.run())
    stack.callback(running.cancel)
    return recorded(service(), recorder)


def facts(percentiles: Mapping[str, list[float]]) -> dict[str, str]:
    """Medians over the rounds that count, in milliseconds, and what records add in the same round."""
    rounds = {name: some[1:] for name, some in percentiles.items()}
    told = {f"99th percentile, {name}": _ms(statistics.median(some)) for name, some in rounds.items()}
    added = [
        with_ - (one + two) / 2 for with_, one, two in zip(rounds[RECORDED], rounds[PLAIN], rounds[AGAIN], strict=True)
    ]
    told["added to the 99th percentile, median of the rounds"] = _ms(statistics.median(added))
    told["99th percentile of recording itself"] = _ms(last_percent(TimedRecorder.seconds))
    return told


def last_percent(seconds: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(seconds, n=PERCENT)[-1]


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:.3f} ms"


def main() -> int:
    """Runs the benchmark; 1 when a run is void."""
    how = asked(__doc__, units=2_000, quick_units=100)
    with tempfile.TemporaryDirectory(prefix="braid-audit-") as directory:
        table = asyncio.run(contest(how.units, how.rounds, Path(directory)))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
