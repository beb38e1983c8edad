"""`get rejected` and `dlq promote`: what a group skipped in place is listed, read again and made a dead letter."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from braid.client.mesh import Mesh, Ports
from braid.client.records.record import Record
from braid.kernel.ports import TopicPartition
from braid.rpc.memory.transport import MemoryTransport
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.cli.mesh import Shell, virtual

TOPIC = "braid.logs.live.1"


@contextlib.asynccontextmanager
async def user(shell: Shell, name: str) -> AsyncIterator[Mesh]:
    """Another process with the SDK."""
    process = VirtualProcess(running_loop(), name, 1)
    transport = MemoryTransport(shell.network, name)
    ports = Ports(process.host, shell.kafka, transport)
    addresses = [f"{instance}:1" for instance in shell.processes]
    async with Mesh(ports.host, ports.kafka, transport, addresses, name, "a") as mesh:
        yield mesh


async def produced(shell: Shell, *values: bytes) -> None:
    """Records in the stream, in order."""
    async with user(shell, "web") as mesh, mesh.producer("logs") as producer:
        for value in values:
            await producer.send(value, key=b"k", headers={"h": b"1"})


async def consumed(shell: Shell, count: int) -> None:
    """A member rejects what is odd, does the rest, and goes."""

    async def handle(record: Record) -> None:
        done.append(record)
        if b"odd" in (record.value or b""):
            record.reject("odd")

    done: list[Record] = []
    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="g") as consumer:
        running = asyncio.ensure_future(consumer.run(handle))
        await shell.until(lambda: len(done) == count)
        await asyncio.sleep(2.0)  # commits
    await running


async def with_rejected() -> Shell:
    """Offsets 1, 2 and 4 of one partition were rejected; the base passed them several commits ago."""
    shell = await Shell().start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await asyncio.sleep(2.0)
    await produced(shell, b"even", b"odd-1", b"odd-2", b"even", b"odd-4")
    await consumed(shell, 5)
    await produced(shell, b"even", b"even")
    await consumed(shell, 2)  # another holder, whose commits are new
    return shell


@virtual
async def test_rejections_are_listed_after_later_commits_and_holders() -> None:
    shell = await with_rejected()
    told = await shell.braid("get", "rejected", "g")
    assert (told.code, [line.split()[:5] for line in told.out.splitlines()[1:]]) == (
        0,
        [["logs/live/1/0@1-2", "g", "2", "all", "east"], ["logs/live/1/0@4", "g", "1", "all", "east"]],
    )
    found = json.loads((await shell.braid("get", "rejected", "g", "-o", "json")).out)["items"]
    assert [(each["first_offset"], each["last_offset"], each["in_log"]) for each in found] == [(1, 2, 2), (4, 4, 1)]
    nobody = await shell.braid("get", "rejected", "h")
    assert nobody.code == 4 and "there is no group h" in nobody.err
    assert (await shell.braid("get", "rejected", "--stream", "other")).out == ""


@virtual
async def test_rejected_records_are_reread_in_bounds_while_kept() -> None:
    shell = await with_rejected()
    assert (await shell.braid("get", "rejected", "g", "--fetch", "2")).out == "odd-1\nodd-2\n"
    shell.kafka.named("east").expire(TopicPartition(TOPIC, 0), 2)
    assert (await shell.braid("get", "rejected", "g", "--fetch", "9")).out == "odd-2\nodd-4\n"
    listed = (await shell.braid("get", "rejected", "g")).out.splitlines()
    assert [line.split()[3] for line in listed[1:]] == ["1", "all"]
    lines = (await shell.braid("get", "rejected", "g", "--fetch", "9", "-o", "json")).out.splitlines()
    assert [(json.loads(line)["offset"], json.loads(line)["group"]) for line in lines] == [(2, "g"), (4, "g")]


@virtual
async def test_rejected_records_become_dead_letters_of_their_own_place() -> None:
    shell = await with_rejected()
    dry = await shell.braid("dlq", "promote", "g", "--dry-run")
    assert dry.out == "logs/live/1/0@1-2, logs/live/1/0@4: up to 3 records would be copied (dry run: nothing was)\n"
    refused = await shell.braid("dlq", "promote", "g", "--max", "2")
    assert refused.code == 2 and "--range" in refused.err
    wrong = await shell.braid("dlq", "promote", "g", "--range", "logs/live/1/0@1-3")
    assert wrong.code == 4 and "logs/live/1/0@1-2" in wrong.err
    assert shell.kafka.named("east").log(TopicPartition("braid.logs.dlq.1", 0)).end == 0, "nothing was copied so far"
    told = await shell.braid("dlq", "promote", "g", "--range", "logs/live/1/0@4")
    assert told.out == "group/g 1 rejected records copied to the dlq lane\n"
    read = await shell.braid("consume", "logs", "--lane", "dlq", "--max", "1", "-o", "json")
    letter = json.loads(read.out)
    headers = {name: value for name, value in letter["headers"].items() if name.startswith("braid-dl-")}
    assert (letter["value"], letter["headers"]["h"]) == ("odd-4", "1")
    assert (headers["braid-dl-group"], headers["braid-dl-offset"], headers["braid-dl-topic"]) == ("g", "4", TOPIC)
    assert (headers["braid-dl-error-class"], headers["braid-dl-lane"]) == ("Rejected", "live")


@virtual
async def test_a_cluster_that_is_away_is_named_and_the_rest_is_told() -> None:
    shell = await with_rejected()
    shell.kafka.named("east").kill()
    told = await shell.braid("get", "rejected", "g")
    assert (told.code, told.out) == (0, "")
    assert "cluster east does not answer" in told.err
