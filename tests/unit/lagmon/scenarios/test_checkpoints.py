"""A replica that is started again reads the offset log from its checkpoint on, or all of it where that is not safe."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.ports import TopicPartition
from services.lagmon.kept.files import MemoryFiles
from services.lagmon.servicer.service import Lagmon
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import OFFSET_PARTITIONS, Mesh

OLD = 20  # commits before the checkpoint
EVERY_SECONDS, AGE_SECONDS = 8.0, 40.0  # instead of a minute and ten
Scene = Callable[[Mesh, MemoryFiles], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lagmon.reconciler.tail.LAG_CHECKPOINT_SECONDS", EVERY_SECONDS)
    monkeypatch.setattr("services.lagmon.reconciler.checkpoints.LAG_CHECKPOINT_AGE_SECONDS", AGE_SECONDS)


def play(scene: Scene) -> None:
    """Plays with a replica that has a checkpoint of `OLD` commits, and was killed."""

    async def run() -> None:
        files = MemoryFiles()
        mesh = await Mesh().start(files=files)
        mesh.kafka.named("east").create_topic("t", 2, 1, {})
        for number in range(OLD):
            mesh.commit(f"g{number}", number, number % 2, topic="t")
        await mesh.clock.sleep(2 * EVERY_SECONDS + 5)
        mesh.processes["lagmon-0"].kill()
        await scene(mesh, files)

    run_virtual(run())


async def started_again(mesh: Mesh, files: MemoryFiles) -> tuple[set[str], int]:
    """Groups that have rows after a start, and how many records of the offset log were read for them."""
    await mesh.serve("lagmon-0", Lagmon(mesh.kafka.process(), files))
    await mesh.clock.sleep(5.0)
    assert not (await mesh.ask()).catching_up
    read = 0.0
    for family in mesh.replicas["lagmon-0"].metrics.registry.collect():
        if family.name == "braid_lagmon_offset_records":
            read += sum(sample.value for sample in family.samples)
    return {row.group for row in await mesh.lag()}, round(read)


EVERY = {f"g{number}" for number in range(OLD)}


def test_a_restart_reads_only_what_came_after_the_checkpoint() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        mesh.commit("new", 1, topic="t")
        mesh.commit("g3", None, 1, topic="t")
        mesh.commit("g4", 77, 0, topic="t")
        groups, read = await started_again(mesh, files)
        assert (groups, read) == (EVERY - {"g3"} | {"new"}, 3)
        assert [row.committed_offset for row in await mesh.lag(group="g4")] == [77]

    play(scene)


def test_an_old_checkpoint_is_not_used() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        await mesh.clock.sleep(AGE_SECONDS)
        assert await started_again(mesh, files) == (EVERY, OLD)

    play(scene)


def test_a_checkpoint_of_another_offset_log_is_not_used() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        east = mesh.kafka.named("east")
        east.delete_topic(OFFSETS_TOPIC)
        east.create_topic(OFFSETS_TOPIC, OFFSET_PARTITIONS, 1, {})
        for number in range(2 * OLD):  # beyond the position in the log before
            mesh.commit("new", number, number % 2, topic="t")
        assert (await started_again(mesh, files))[0] == {"new"}

    play(scene)


def test_a_damaged_checkpoint_costs_a_longer_start_alone() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        (name,) = (name for name in files.names() if name.startswith("offsets-"))
        files.write(name, files.read(name, 0, 1 << 20)[:-9])
        assert await started_again(mesh, files) == (EVERY, OLD)

    play(scene)


def test_a_partition_cut_below_its_position_is_read_anew() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        mesh.kafka.named("east").truncate(TopicPartition(OFFSETS_TOPIC, 0), 4)
        groups, read = await started_again(mesh, files)
        assert (groups, read) == ({f"g{number}" for number in range(OLD) if number % 2 or number < 8}, 4)

    play(scene)


def test_a_partition_cut_and_grown_again_is_read_anew() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        cut = TopicPartition(OFFSETS_TOPIC, 0)
        mesh.kafka.named("east").truncate(cut, 4)
        mesh.kafka.named("east").grow_epoch(cut)
        for number in range(30):
            mesh.commit("again", number, 0, topic="t")
        groups, _ = await started_again(mesh, files)
        assert groups == {f"g{number}" for number in range(OLD) if number % 2 or number < 8} | {"again"}

    play(scene)


def test_a_partition_whose_log_lost_its_start_is_read_from_there() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        for number in range(30):
            mesh.commit("new", number, 0, topic="t")
        mesh.kafka.named("east").expire(TopicPartition(OFFSETS_TOPIC, 0), 20)
        groups, _ = await started_again(mesh, files)
        assert groups == {f"g{number}" for number in range(OLD) if number % 2} | {"new"}

    play(scene)


def test_positions_of_a_cluster_long_away_are_not_used() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        await mesh.serve("lagmon-0", Lagmon(mesh.kafka.process(), files))
        await mesh.clock.sleep(5.0)
        mesh.kafka.named("east").kill()
        await mesh.clock.sleep(2 * AGE_SECONDS)  # checkpoints go on, of what was read before
        mesh.processes["lagmon-0"].kill()
        mesh.kafka.named("east").start()
        await mesh.clock.sleep(5.0)
        assert await started_again(mesh, files) == (EVERY, OLD)

    play(scene)


def test_a_removed_clusters_checkpoint_is_removed() -> None:
    async def scene(mesh: Mesh, files: MemoryFiles) -> None:
        await mesh.serve("lagmon-0", Lagmon(mesh.kafka.process(), files))
        await mesh.clock.sleep(2.0)
        assert any(name.startswith("offsets-") for name in files.names())
        mesh.registry.clusters.remove("east")
        await mesh.clock.sleep(5.0)
        assert not any(name.startswith("offsets-") for name in files.names())

    play(scene)
