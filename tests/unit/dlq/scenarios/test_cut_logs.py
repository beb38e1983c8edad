"""Letters of logs that were cut and written on, or made anew: an offset is of several records, each with its letter."""

from pathlib import Path

import pytest

from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import TopicPartition
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play
from tests.unit.dlq.scenarios.test_mesh import DLQ


def test_letters_of_two_records_at_one_offset_are_both_replayed(tmp_path: Path) -> None:
    """A cluster came back without its newest records and gave their offsets to others; both were given up."""

    async def scene(mesh: Mesh) -> None:
        for number in (7, 8, 8):  # the last is a copy: its consumer died before it could commit
            await mesh.park(1, first=number, headers=(("braid-dl-offset", b"7"),))
        await mesh.indexed(2)
        assert [each.origin.id for each in (await mesh.letters()).letters] == ["01ARZ:8", "01ARZ:7"]
        done = await over(mesh, (await mesh.replay()).id)
        assert (done.status.matched, mesh.replayed()) == (2, {"01ARZ:7": 1, "01ARZ:8": 1})

    play(tmp_path, scene)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cut_dlq_log_that_was_written_on_is_indexed_as_it_is(tmp_path: Path, restarted: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(10)
        await mesh.indexed(10)
        if restarted:
            for name in ("dlq-0", "dlq-1"):
                mesh.kill(name)
        east = mesh.kafka.named("east")
        east.kill()
        east.truncate(DLQ, 8)
        east.start()
        await mesh.park(5, first=50)
        if restarted:
            for name in ("dlq-0", "dlq-1"):
                await mesh.run_service(name)
        await mesh.indexed(13)
        ids = {each.origin.id for each in (await mesh.letters()).letters}
        assert ids == {f"01ARZ:{number}" for number in (*range(8), *range(50, 55))}

    play(tmp_path, scene)


@pytest.mark.parametrize(("key", "age_ms", "sent"), [(b"key", 0, 1), (b"other", 0, 0), (b"key", 1, 0)])
def test_a_cut_letter_without_an_id_is_sent_from_its_own_record(
    tmp_path: Path, key: bytes, age_ms: int, sent: int
) -> None:
    async def scene(mesh: Mesh) -> None:
        east, live = mesh.kafka.named("east"), TopicPartition("braid.logs.live.1", 0)
        await mesh.until(lambda: _there(mesh, live))
        east.append(live, [NewRecord(5_000, key, b"the whole value", ())])
        cut = (("braid-dl-cut", b"15"), ("braid-dl-timestamp", b"%d" % (5_000 + age_ms)), ("braid-dl-origin-id", b""))
        await mesh.park(1, headers=cut)
        await mesh.indexed(1)
        done = await over(mesh, (await mesh.replay()).id)
        assert (done.status.sent, done.status.skipped) == (sent, 1 - sent)

    play(tmp_path, scene)


async def _there(mesh: Mesh, partition: TopicPartition) -> bool:
    return mesh.kafka.named("east").end(partition) is not None
