"""One service over clusters in memory: `python -m bench.harness.twins.service registry|assigner|lagmon|dlq GROUPS`.

Settings are the service's own, from the environment. Each process has clusters of its own, filled alike. The lag
monitor begins with a checkpoint of everybody's commits. It appends records as the socket `twin.sock` beside its ready
file is told, and every second to one stream in twenty, so that lag changes.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Final

from bench.harness.twins.clusters import append, checkpoints, empty_clusters, filled_clusters
from bench.harness.twins.shape import PARTITIONS, Shape, topic_of
from braid.kafka.memory import MemoryKafka
from braid.kernel.ports import Host, TopicPartition
from braid.runtime.process import serve
from braid.runtime.service import Service
from braid.runtime.settings import Settings, settings_or_exit
from services.assigner.servicer.service import Assigner
from services.dlq.config import DlqSettings
from services.dlq.servicer.service import Dlq
from services.lagmon.columns.checkpoint import write_checkpoint
from services.lagmon.config import LagmonSettings
from services.lagmon.kept.files import DirectoryFiles
from services.lagmon.reconciler.checkpoints import checkpoint_file
from services.lagmon.servicer.service import Lagmon
from services.registry.service import RegistryService

SOCKET: Final = "twin.sock"
NOTES: Final = "twin.jsonl"  # beside the ready file: what `Notes` wrote
FILLING: Final = ("filling", "filled")  # notes before and after the clusters are filled
_FULL: Final = 2  # the oldest generation
CHANGING: Final = 20  # one stream in twenty gets a record each second


def registry(shape: Shape) -> tuple[Settings, Callable[[Host], Service]]:
    """A registry, which makes its topics itself."""
    return settings_or_exit(Settings), lambda host: RegistryService(empty_clusters(shape, host.clock))


def assigner(shape: Shape) -> tuple[Settings, Callable[[Host], Service]]:
    """An assigner, whose groups have their starts already."""
    return settings_or_exit(Settings), lambda host: Assigner(filled_clusters(shape, host.clock))


def dlq(shape: Shape) -> tuple[Settings, Callable[[Host], Service]]:
    """A dlq without dead letters."""
    settings = settings_or_exit(DlqSettings)
    return settings, lambda host: Dlq(filled_clusters(shape, host.clock), settings.index_file, settings.store)


class Notes:
    """Writes when the clusters of this process were filled, and the CPU time of each full garbage collection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = 0.0
        path.unlink(missing_ok=True)
        gc.callbacks.append(self._collected)

    def add(self, **note: float) -> None:
        """Adds a line, with the time since the machine started."""
        with self._path.open("a") as notes:
            notes.write(json.dumps({"at": time.monotonic(), **note}) + "\n")

    def _collected(self, phase: str, found: Mapping[str, int]) -> None:
        if found["generation"] < _FULL:
            return
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.add(paused=time.thread_time() - self._began, freed=found["collected"])


def lagmon(shape: Shape) -> tuple[Settings, Callable[[Host], Service]]:
    """A lag monitor that was away for a moment."""
    settings = settings_or_exit(LagmonSettings)
    directory = settings.kept_lag_directory
    assert directory is not None and settings.ready_file is not None
    socket = settings.ready_file.with_name(SOCKET)
    notes = Notes(settings.ready_file.with_name(NOTES))

    def make(host: Host) -> Service:
        notes.add(filling=1)
        kafka, files = filled_clusters(shape, host.clock), DirectoryFiles(directory)
        for name, found in checkpoints(shape, kafka).items():
            files.write(checkpoint_file(name), write_checkpoint(found))
        notes.add(filled=1)
        host.tasks.spawn(_append_as_told(kafka, shape, host, socket), "append as told")
        host.tasks.spawn(_append_always(kafka, shape, host), "append always")
        return Lagmon(kafka, files, settings.kept_lag_bytes)

    return settings, make


async def _append_as_told(kafka: MemoryKafka, shape: Shape, host: Host, socket: Path) -> None:
    """Answers each line, `{"stream": number, "partition": number, "records": number}`, once the records are there."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            told = json.loads(line)
            partition = TopicPartition(topic_of(shape.streams[told["stream"]]), told["partition"])
            append(kafka.named(shape.cluster_of(told["stream"])), partition, told["records"], host.clock.now_ms())
            writer.write(b"{}\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, socket)
    async with server:
        await server.serve_forever()


async def _append_always(kafka: MemoryKafka, shape: Shape, host: Host) -> None:
    streams = shape.streams
    for second in count():
        for number in range(CHANGING + second % CHANGING, len(streams), CHANGING):  # the first ones change when told to
            partition = TopicPartition(topic_of(streams[number]), second // CHANGING % PARTITIONS)
            append(kafka.named(shape.cluster_of(number)), partition, 1, host.clock.now_ms())
        await host.clock.sleep(1.0)


MAKES: Final = {"registry": registry, "assigner": assigner, "lagmon": lagmon, "dlq": dlq}


def main(kind: str, groups: str) -> int:
    """Serves until a signal ends it."""
    settings, make = MAKES[kind](Shape(int(groups)))
    return serve(make, settings)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
