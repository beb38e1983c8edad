"""A stream in a mesh on virtual time, and records that stand in its logs just as a sender wrote them."""

from collections.abc import Sequence

from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import TopicPartition
from tests.support.browser import Answer, Browser
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell

Headers = tuple[tuple[str, bytes], ...]
BEGIN_MS = 1_700_000_000_000


async def looked_at(*clusters: str, partitions: int = 1, lanes: Sequence[str] = ("live",)) -> ConsoleMesh:
    """A mesh with a stream `logs`, and its console."""
    shell = await Shell().start(*(clusters or ("east",)))
    declared = [word for lane in lanes for word in ("--lane", f"{lane}={partitions}")]
    assert (await shell.braid("create", "stream", "logs", *declared)).code == 0
    return ConsoleMesh(shell)


def write(
    mesh: ConsoleMesh,
    value: bytes | None,
    *,
    at_ms: int = 0,
    partition: int = 0,
    key: bytes | None = None,
    headers: Headers = (("x", b"1"),),
    topic: str = "braid.logs.live.1",
    cluster: str = "east",
) -> int:
    """Appends one record, and returns its offset."""
    record = NewRecord(BEGIN_MS + at_ms, key, value, headers)
    return mesh.shell.kafka.named(cluster).append(TopicPartition(topic, partition), [record])


async def browse(browser: Browser, **body: object) -> Answer:
    """Asks for records of `logs`; a name with `_` at its end is a word of Python."""
    return await browser.post("/api/messages/logs", {name.rstrip("_"): value for name, value in body.items()})


def values(answer: Answer) -> list[str]:
    """The values of an answer's rows, as they are shown."""
    assert answer.status == 200, answer
    return [row["value_shown"]["text"] for row in answer.json["rows"]]
