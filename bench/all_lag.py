"""The lag of all of 2,000 groups, beside Kafka's own command on the same broker: `python -m bench.all_lag`.

The groups are plain consumer groups of a real broker, with offsets that were committed there. The peer is
`kafka-consumer-groups.sh --all-groups --describe`, a whole process. `braid get lag` is one too. The console's answer
and a loop over Kafka's Admin API run in processes that are there already. Each answer is checked: it has every
partition of every group, and the sum of their lag is what was committed. `--units` is the number of groups.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import psutil
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient

from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.lag_ground import Groups, LagGround, lag_ground
from bench.harness.rounds import Sample, rows, verdict
from bench.harness.single_jars import KAFKA_TOOLS
from bench.harness.tables import Table, made_with
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import java_binary
from testbed.patience import Deadline

PEER: Final = "kafka-consumer-groups.sh"
AGAIN: Final = "kafka-consumer-groups.sh again"
ADMIN: Final = "a loop over the Admin API"
BY_PARTITION: Final = "braid get lag --detail partition"
BY_LANE: Final = "braid get lag"
CONSOLE: Final = "the console, all groups"
WINDOW: Final = "the console, its page"
SHOWN: Final = (PEER, AGAIN, ADMIN, BY_PARTITION, BY_LANE, CONSOLE, WINDOW)
BRAID: Final = Path(sys.executable).with_name("braid")
FETCHES_AT_ONCE: Final = 32
UNSHARED_SECONDS: Final = 25.0  # the console reads on for 20 s after a page was asked for
QUICK_UNSHARED_SECONDS: Final = 1.0
STANDING_SECONDS: Final = 10.0
QUICK_STANDING_SECONDS: Final = 1.0
_HANGS_SECONDS: Final = 300.0
_MAIN: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# What `kafka-run-class.sh` gives a command.
_JVM: Final = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip


class Answer(NamedTuple):
    """The content of an answer: rows of partitions or lanes, and the records that they are behind together."""

    rows: int
    behind: int


def kafka_answer(text: str) -> Answer:
    """Reads the table that Kafka's command prints: for each group a heading, then a line for each partition."""
    lags = [line.split()[5] for line in text.splitlines() if len(line.split()) >= 9 and not line.startswith("GROUP ")]
    return Answer(len(lags), sum(map(int, lags)))


def braid_answer(text: str) -> Answer:
    """Reads the table that `braid get lag` prints. The heading names its columns, which begin where their names do."""
    heading, *lines = text.splitlines()
    place = heading.split().index("RECORDS")
    return Answer(len(lines), sum(int(line.split()[place].replace(",", "")) for line in lines))


def console_answer(document: Mapping[str, Sequence[Mapping[str, object]]]) -> Answer:
    """Reads what the console answers about all groups: a row for each lane."""
    lags = document["lag"]
    return Answer(len(lags), sum(int(str(lag["lag_records"])) for lag in lags))


class Browser:
    """Keeps a session's cookie, as a browser does."""

    def __init__(self) -> None:
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    async def get(self, address: str) -> bytes:
        """The body of an answer. Raises `HTTPError` for one that is none."""

        def read() -> bytes:
            with self._opener.open(address, timeout=_HANGS_SECONDS) as answer:
                body: bytes = answer.read()
            return body

        return await asyncio.to_thread(read)


class Contest:
    """The contestants, over one broker."""

    def __init__(self, ground: LagGround, browser: Browser) -> None:
        self._ground = ground
        self._groups = ground.groups
        self._browser = browser
        self._windows = 0
        self.servers: dict[str, list[float]] = {}  # by contestant, CPU seconds of the broker and of services a round

    @classmethod
    async def prepared(cls, ground: LagGround, browser: Browser) -> Self:
        """Signs in at the console."""
        await browser.get(ground.sign_in())
        return cls(ground, browser)

    def contestants(self) -> dict[str, Contestant]:
        """By name. The page is not among them: it is read on for a while after it was asked for."""
        found: dict[str, Callable[[], Awaitable[None]]] = {
            PEER: self.kafka,
            AGAIN: self.kafka,
            CONSOLE: self.console,
            ADMIN: self.admin,
            BY_PARTITION: lambda: self._braid("get", "lag", "--detail", "partition", rows=self._groups.rows),
            BY_LANE: lambda: self._braid("get", "lag", rows=self._groups.count),
        }
        return {name: self._weighed(name, act) for name, act in found.items()}

    async def pages(self, rounds: int, pause_seconds: float) -> list[Sample]:
        """Asks for the page of all groups, each time when no reading is left that it could share."""
        taken: list[Sample] = []
        act = self._weighed(WINDOW, self.window)
        for _ in range(rounds):
            await asyncio.sleep(pause_seconds)
            cpu, wall = asker_cpu(), time.perf_counter()
            units = await act()
            taken.append(Sample(units, asker_cpu() - cpu, time.perf_counter() - wall))
        return taken

    async def kafka(self) -> None:
        """Kafka's own command."""
        text = await asyncio.to_thread(run, kafka_command(self._ground.kafka.bootstrap, "--all-groups", "--describe"))
        self._check(kafka_answer(text), self._groups.rows)

    async def admin(self) -> None:
        """Lists groups, reads the offsets of each and the ends of all logs, with one client that begins anew."""
        bootstrap, room = self._ground.kafka.bootstrap, asyncio.Semaphore(FETCHES_AT_ONCE)
        client, consumer = (
            AIOKafkaAdminClient(bootstrap_servers=bootstrap),
            AIOKafkaConsumer(bootstrap_servers=bootstrap),
        )
        await client.start()
        await consumer.start()
        try:
            names = [each[0] for each in await client.list_consumer_groups()]
            coordinator = await client.find_coordinator(names[0])  # one broker: of all of them

            async def offsets(name: str) -> Mapping[AioPartition, int]:
                async with room:
                    found = await client.list_consumer_group_offsets(name, group_coordinator_id=coordinator)
                return {partition: each.offset for partition, each in found.items()}

            committed = await asyncio.gather(*map(offsets, names))
            ends = await consumer.end_offsets(list({partition for each in committed for partition in each}))
        finally:
            await consumer.stop()
            await client.close()
        lags = [ends[partition] - offset for each in committed for partition, offset in each.items()]
        self._check(Answer(len(lags), sum(lags)), self._groups.rows)

    async def console(self) -> None:
        """The console's answer about all groups, as its button for a file asks for it."""
        answer = await self._browser.get(f"{self._ground.address}/api/groups")
        self._check(console_answer(json.loads(answer)), self._groups.count)

    async def window(self) -> None:
        """The page of all groups: it sorts all of them, and shows the first. Each round asks in another order."""
        self._windows += 1
        params = urlencode({"q": "app-", "first": str(self._windows)})
        parts = json.loads(await self._browser.get(f"{self._ground.address}/api/views/groups?{params}"))["parts"]
        assert parts["window"]["value"]["matched"] == self._groups.count, parts["window"]
        assert not parts["lag"]["stale"], parts["lag"]["error"]

    async def _braid(self, *arguments: str, rows: int) -> None:
        text = await asyncio.to_thread(run, [str(BRAID), *arguments], self._ground.environment)
        self._check(braid_answer(text), rows)

    def _check(self, found: Answer, rows: int) -> None:
        assert found == Answer(rows, self._groups.behind), f"{found}, but {rows} rows and {self._groups.behind} records"

    def _weighed(self, name: str, act: Callable[[], Awaitable[None]]) -> Contestant:
        async def once() -> int:
            before = sum(self._ground.cpu_seconds().values())
            await act()
            self.servers.setdefault(name, []).append(sum(self._ground.cpu_seconds().values()) - before)
            return self._groups.count

        return once


def kafka_command(bootstrap: str, *arguments: str) -> list[str]:
    """Kafka's command for consumer groups, as its script starts it. A call may take a minute, not five seconds."""
    classpath = ":".join([kafka_classpath(), *map(str, KAFKA_TOOLS.paths())])
    return [
        *(str(java_binary()), *_JVM, "-cp", classpath, _MAIN),
        *("--bootstrap-server", bootstrap, "--timeout", "60000", *arguments),
    ]


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs a whole command; returns what it prints. Raises `AssertionError` where it fails."""
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_HANGS_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return ran.stdout


def asker_cpu() -> float:
    """CPU seconds of this process and of the commands that it ran. Servers are not among them."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


async def starts(ground: LagGround, times: int) -> str:
    """How long commands take that ask for nothing: their start alone."""
    found: list[str] = []
    for name, command in (
        ("Kafka's", kafka_command(ground.kafka.bootstrap, "--version")),
        ("braid", [str(BRAID), "--version"]),
    ):
        took = []
        for _ in range(times):
            begun = time.perf_counter()
            await asyncio.to_thread(run, command, ground.environment)
            took.append(time.perf_counter() - begun)
        found.append(f"{name} {min(took):.2f} s")
    return ", ".join(found)


async def standing(ground: LagGround, seconds: float) -> str:
    """The part of a core that each process takes while no question comes."""
    before = ground.cpu_seconds()
    await asyncio.sleep(seconds)
    after = ground.cpu_seconds()
    return ", ".join(f"{name} {(after[name] - before[name]) / seconds:.1%}" for name in after)


async def contest(how: Asked) -> Table:
    """Plays all rounds on a ground of their own."""
    groups, deadline = Groups(how.units), Deadline(1.0)
    async with lag_ground(groups) as ground:
        made = await Contest.prepared(ground, Browser())
        idle = await standing(ground, QUICK_STANDING_SECONDS if how.quick else STANDING_SECONDS)
        started = await starts(ground, 1 if how.quick else 3)
        samples = await play(made.contestants(), how.rounds, asker_cpu)
        samples[WINDOW] = await made.pages(how.rounds, QUICK_UNSHARED_SECONDS if how.quick else UNSHARED_SECONDS)
        memory = {name: process_megabytes(pid) for name, pid in ground.pids().items()}
    found = rows({name: samples[name] for name in SHOWN}, PEER, "wall")
    servers = {name: sorted(took)[len(took) // 2] for name, took in made.servers.items()}
    facts = {
        "work": f"{groups.count:,} groups with {groups.rows:,} committed offsets of {len(groups.topics)} topics, "
        f"{groups.behind:,} records behind; every answer has all of them; the machine gave {deadline.share:.0%}",
        "peer": "the whole command, the start of its JVM included, with the options of its script",
        "starts alone": started,
        "CPU": "of the asking side; of broker, services and console together: "
        + ", ".join(f"{name} {took * 1e3:.0f} ms" for name, took in servers.items()),
        "at rest": f"{idle} of a core",
        "memory": ", ".join(f"{name} {size:.0f} MB" for name, size in memory.items()),
    }
    return Table("all_lag", "group", "wall", verdict(found, AGAIN), facts, found, made_with())


def process_megabytes(pid: int) -> float:
    """Resident memory of a process."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def main() -> int:
    """Runs the benchmark; 1 when it is void."""
    how = asked(__doc__, units=2_000, quick_units=40)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
