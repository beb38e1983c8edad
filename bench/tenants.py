"""The cost of one tenant's flood for another tenant: `python -m bench.tenants`.

Three processes over real gRPC on this machine: a replica, a caller of tenant `bakery` that asks at a steady pace, and a
flood of tenant `acme`. Its workers call in a loop, a hundred times as often as their quota lets them, and heed no
`RetryInfo`. Rounds with and without the flood take turns, so that other work on the machine meets both. A round's
figure is its 99th percentile, a table's is the median of rounds; beside it, what the replica spends on a refused call.
"""

import argparse
import asyncio
import statistics
import sys
import time
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

import psutil

from braid.api.registry.v1.registry_service_pb2 import DeleteStreamRequest
from braid.host.system import system_host
from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import QuotaExceeded
from braid.kernel.ports import Caller, CallOptions, RpcService
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import method_path, service_path, unary
from braid.runtime.access.tenant_codec import TENANTS
from braid.runtime.access.tenant_history import HISTORY, SetTenant
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from testbed.patience import until

RATE: Final = 50  # calls a second that each tenant may begin
FLOOD: Final = 100  # times that
WORKERS: Final = 256
PACE_SECONDS: Final = 0.025  # between two calls of the other tenant
PATH: Final = method_path("registry", "DeleteStream")
AIM: Final = 1.5


class Round(NamedTuple):
    """The figures of one round."""

    p99_ms: float
    cpu_seconds: float
    calls: int


class Echo:
    """A service with one method, which answers what it is asked."""

    name: Final = "registry"
    kinds: Final = {}  # type: ignore[var-annotated]

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def echo(request: DeleteStreamRequest, caller: Caller) -> DeleteStreamRequest:
            return request

        return RpcService(service_path(self.name), {PATH: unary(DeleteStreamRequest, echo)}, {}, {})

    async def lead(self, replica: Replica) -> None:
        """Nothing to do."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""


async def serve() -> None:
    """Serves until its input ends; prints its address first."""
    host = system_host()
    store = MemoryStore(host, MemoryStoreServer(host.clock))
    replica = Replica(Echo(), host, store, GrpcTransport(), address="127.0.0.1:0", instance="registry-0")
    host.tasks.spawn(replica.run(), "replica")
    await replica.ready()
    await until(replica.leading, "nobody leads")
    for name in ("acme", "bakery"):
        command = SetTenant(name, (), Quotas(requests_per_second=RATE))
        await replica.tenants.histories.execute(TENANTS, HISTORY, command, actor="bench")
    await asyncio.sleep(0.5)
    sys.stdout.write(f"{replica.address}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


async def flood(address: str) -> None:
    """Calls as often as answers let it, up to the flood's rate, until its input ends; prints how often."""
    answered = refused = 0
    channel = GrpcTransport().channel(address)
    options, pause = CallOptions(30.0, tenant="acme"), WORKERS / (RATE * FLOOD)

    async def work(number: int) -> None:
        nonlocal answered, refused
        due = time.perf_counter() + pause * number / WORKERS
        while True:
            due = max(due + pause, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())
            try:
                await channel.unary(PATH, DeleteStreamRequest(name="x"), DeleteStreamRequest, options)
                answered += 1
            except QuotaExceeded:
                refused += 1

    workers = [asyncio.ensure_future(work(number)) for number in range(WORKERS)]
    await asyncio.to_thread(sys.stdin.read)
    for each in workers:
        each.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    sys.stdout.write(f"{answered} {refused}\n")


async def measure(address: str, process: psutil.Process, seconds: float) -> Round:
    """Asks at a steady pace, each call at its time whatever the one before it took."""
    channel, taken = GrpcTransport().channel(address), list[float]()
    options, before = CallOptions(5.0, tenant="bakery"), sum(process.cpu_times()[:2])

    async def ask() -> None:
        begun = time.perf_counter()
        await channel.unary(PATH, DeleteStreamRequest(name="y"), DeleteStreamRequest, options)
        taken.append(time.perf_counter() - begun)

    async with asyncio.TaskGroup() as asking:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            asking.create_task(ask())
            await asyncio.sleep(PACE_SECONDS)
    await channel.close()
    spent = sum(process.cpu_times()[:2]) - before
    return Round(statistics.quantiles(taken, n=100)[98] * 1_000, spent, len(taken))


async def child(*words: str) -> asyncio.subprocess.Process:
    """Starts this module in a process of its own."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.tenants", *words, stdin=pipe, stdout=pipe)


async def contest(rounds: int, seconds: float) -> bool:
    """Plays rounds with and without the flood, prints the table, and says whether the aim is met."""
    quiet, flooded, refusals = list[Round](), list[Round](), list[int]()
    async with AsyncExitStack() as stack:
        server = await child("--serve")
        stack.callback(server.kill)
        assert server.stdout is not None
        address = (await server.stdout.readline()).decode().strip()
        process = psutil.Process(server.pid)
        await measure(address, process, 2.0)
        for _ in range(rounds):
            quiet.append(await measure(address, process, seconds))
            flooder = await child("--flood", address)
            await asyncio.sleep(2.0)
            flooded.append(await measure(address, process, seconds))
            told, _ = await flooder.communicate(b"")
            refusals.append(int(told.split()[1]))
    before, during = (statistics.median(each.p99_ms for each in some) for some in (quiet, flooded))
    extra = sum(each.cpu_seconds for each in flooded) - sum(each.cpu_seconds for each in quiet)
    per_second = sum(refusals) / rounds / (seconds + 2.0)
    print(f"bakery, quiet: p99 {before:.2f} ms; acme flooding at {FLOOD} times its {RATE}/s: {during:.2f} ms")
    print(f"refused {per_second:,.0f}/s; {extra / rounds / seconds:.2f} cores of the replica")
    print(f"{during / before:.2f} times as long; the aim is {AIM}")
    return during <= AIM * before


def main() -> int:
    """Runs one part, or the contest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--flood", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
    elif arguments.flood:
        asyncio.run(flood(arguments.flood))
    else:
        return 0 if asyncio.run(contest(arguments.rounds, arguments.seconds)) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
