"""The cost of one tenant's flood for another tenant: `python -m bench.tenants`.

Processes over real gRPC on this machine: a replica, a caller of tenant `bakery` that asks at a steady pace, and a flood
of tenant `acme`. Its workers call in a loop, a hundred times as often as their quota lets them, and heed no
`RetryInfo`. Rounds take turns, so that other work on the machine meets all: without a flood, with it, and with it at
another replica. In the last one the processes share the processors as in a flood, and nothing else: that is the floor
of what a replica could reach. A round's figure is its 99th percentile, a table's is the median of rounds; beside it,
what the replica spends on a refused call.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, NamedTuple

import psutil
import uvloop

from braid.api.registry.v1.registry_service_pb2 import DeleteStreamRequest
from braid.host.system import system_host
from braid.kernel.access.tenants import Quotas
from braid.kernel.errors import QuotaExceeded
from braid.kernel.ports import Caller, CallOptions, RpcService
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import method_path, service_path, unary
from braid.runtime.access.tenant_codec import TENANTS
from braid.runtime.access.tenant_history import HISTORY, SetTenant
from braid.runtime.garbage import freeze_loaded
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from testbed.patience import until

RATE: Final = 50  # calls a second that acme may begin
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
    for name, rate in (("acme", RATE), ("bakery", FLOOD * RATE)):  # bakery's calls come together where one is late
        command = SetTenant(name, (), Quotas(requests_per_second=rate))
        await replica.tenants.histories.execute(TENANTS, HISTORY, command, actor="bench")
    await asyncio.sleep(0.5)
    freeze_loaded()  # as a service's process does
    sys.stdout.write(f"{replica.address}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


async def flood(address: str) -> None:
    """Calls as often as answers let it, up to the flood's rate, until its input ends.

    It prints a line once every worker was answered, and at the end how many of its calls since then were refused.
    """
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
    await until(lambda: answered + refused >= 2 * WORKERS, "the flood is not answered")
    answered = refused = 0
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for each in workers:
        each.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    sys.stdout.write(f"{answered} {refused}\n")


async def measure(address: str, process: psutil.Process, seconds: float) -> Round:
    """Asks at a steady pace, each call at its time whatever the one before it took."""
    channel, taken, options = GrpcTransport().channel(address), list[float](), CallOptions(5.0, tenant="bakery")

    async def ask() -> None:
        begun = time.perf_counter()
        await channel.unary(PATH, DeleteStreamRequest(name="y"), DeleteStreamRequest, options)
        taken.append(time.perf_counter() - begun)

    await ask()  # the first call opens the connection
    taken.clear()
    before = sum(process.cpu_times()[:2])

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


async def begin(stack: AsyncExitStack, *words: str) -> tuple[asyncio.subprocess.Process, str]:
    """Starts this module in a process of its own, until the stack ends; returns it with its first line."""
    process = await child(*words)

    def end() -> None:
        if process.returncode is None:
            process.kill()

    stack.callback(end)
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


async def flooded(stack: AsyncExitStack, target: str, asking: Callable[[], Awaitable[Round]]) -> tuple[Round, int]:
    """A round beside a flood of one replica; returns it with the number of refused calls."""
    flooder, _ = await begin(stack, "--flood", target)
    found = await asking()
    told, _ = await flooder.communicate(b"")
    return found, int(told.split()[-1])


async def contest(rounds: int, seconds: float) -> bool:
    """Plays the rounds, prints the table, and says whether the aim is met."""
    quiet, during, elsewhere, refusals = list[Round](), list[Round](), list[Round](), 0
    async with AsyncExitStack() as stack:
        server, address = await begin(stack, "--serve")
        _, other = await begin(stack, "--serve")
        asking = partial(measure, address, psutil.Process(server.pid), seconds)
        await measure(address, psutil.Process(server.pid), 2.0)
        for _ in range(rounds):
            quiet.append(await asking())
            found, refused = await flooded(stack, address, asking)
            during.append(found)
            refusals += refused
            elsewhere.append((await flooded(stack, other, asking))[0])
    alone, beside, floor = (statistics.median(each.p99_ms for each in some) for some in (quiet, during, elsewhere))
    extra = sum(each.cpu_seconds for each in during) - sum(each.cpu_seconds for each in quiet)
    print(f"bakery, quiet: p99 {alone:.2f} ms; acme flooding at {FLOOD} times its {RATE}/s: {beside:.2f} ms")
    print(f"acme flooding another replica on this machine: {floor:.2f} ms")
    print(f"refused {refusals / rounds / seconds:,.0f}/s; {extra / max(1, refusals) * 1e6:.0f} us of the replica each")
    print(f"{beside / alone:.2f} times as long; the floor is {floor / alone:.2f}, the aim {AIM}")
    return beside <= AIM * max(alone, floor)


def main() -> int:
    """Runs one part, or the contest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--flood", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    if arguments.serve:
        uvloop.run(serve())
    elif arguments.flood:
        asyncio.run(flood(arguments.flood))
    else:
        return 0 if asyncio.run(contest(arguments.rounds, arguments.seconds)) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
