"""The age of the oldest undone record: where it is known from, and how well."""

import pytest

from braid.kernel.limits.lagmon.sampling import LAG_ENDS_SECONDS
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon import policy
from services.lagmon.columns import readings
from tests.unit.lagmon.mesh import LOGS, Mesh
from tests.unit.lagmon.scenarios.scenes import DONE, ESTIMATE, RECORD, UNKNOWN, metric, play


def looks_that_know(seconds: int) -> list[bool]:
    """Whether the lag of a group that keeps up is known, at a look in each of so many seconds."""
    known: list[bool] = []

    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": []}
        mesh.produce(3)
        mesh.commit("g", EnvelopeFields(base=3, head_ingested_at_ms=mesh.clock.now_ms()))
        await mesh.until(lambda rows: [row.source for row in rows] == [DONE])
        for number in range(seconds):
            for part in (0.3, 0.45, 0.25):  # of a second: a record each, and a commit after the second one
                mesh.produce(1)
                await mesh.clock.sleep(part)
                if part == 0.3:
                    base = 4 + 3 * number
                    mesh.commit("g", EnvelopeFields(base=base, head_ingested_at_ms=mesh.clock.now_ms()))
                if part == 0.45:
                    known.append(UNKNOWN not in [row.source for row in await mesh.lag()])

    play(scene)
    return known


def test_the_lag_of_a_group_that_keeps_up_is_known() -> None:
    """A response to lag is undone only after many looks in a row that know the lag."""
    assert all(looks_that_know(20))


def test_without_a_guess_that_lag_is_mostly_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (policy, readings):
        monkeypatch.setattr(module, "LAG_GUESS_SECONDS", -1.0)
    assert not any(looks_that_know(20))


def test_the_record_a_stalled_group_waits_before_is_read_once() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": []}
        mesh.produce(3)
        mesh.commit("g", EnvelopeFields(base=3, head_ingested_at_ms=mesh.clock.now_ms()))
        await mesh.until(lambda rows: [row.source for row in rows] == [DONE])
        await mesh.clock.sleep(60)
        mesh.produce(1)
        born = mesh.clock.elapsed()
        (row,) = await mesh.until(lambda rows: rows[0].lag_records == 1, 1)
        assert row.source == ESTIMATE
        assert row.lag_seconds == pytest.approx(mesh.clock.elapsed() - born, abs=LAG_ENDS_SECONDS)
        (row,) = await mesh.until(lambda rows: rows[0].source == RECORD, 4)
        assert row.lag_seconds == pytest.approx(mesh.clock.elapsed() - born, abs=0.15)
        await mesh.clock.sleep(40)
        (row,) = await mesh.lag()
        assert row.lag_seconds == pytest.approx(mesh.clock.elapsed() - born, abs=0.15)
        assert await metric(mesh, "braid_lagmon_probes_total") == 1

    play(scene)


def test_a_group_that_never_committed_counts_from_the_logs_start() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=2)
        mesh.produce(8, 1)
        mesh.kafka.named("east").expire(TopicPartition(LOGS, 1), 3)
        born = mesh.clock.elapsed()
        mesh.assigner.groups = {"g": ["live"], "dead": ["dlq"]}
        rows = await mesh.until(lambda rows: [row.source for row in rows] == [DONE, RECORD])
        assert [(row.group, row.lag_records, row.committed_offset) for row in rows] == [("g", 0, -1), ("g", 5, -1)]
        assert rows[1].lag_seconds == pytest.approx(mesh.clock.elapsed() - born, abs=0.15)

    play(scene)


def test_a_foreign_group_is_labelled_and_estimated() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.kafka.named("east").create_topic("other", 1, 1, {})
        mesh.commit("tool", 0, topic="other")
        await mesh.until(lambda rows: [row.source for row in rows] == [DONE])
        for _ in range(100):
            mesh.produce(1, topic="other")
            await mesh.clock.sleep(0.1)
        mesh.commit("tool", 50, topic="other")
        (row,) = await mesh.until(lambda rows: rows[0].lag_records == 50, 2)
        assert row.foreign and (row.stream, row.lane) == ("", "")
        assert row.source == ESTIMATE and row.lag_seconds == pytest.approx(5, abs=1)

    play(scene)


def test_a_record_unreadable_for_its_time_leaves_the_least_age() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=2)
        mesh.assigner.groups = {"g": []}
        mesh.produce(1)
        mesh.produce(1, 1)
        mesh.kafka.named("east").damage(TopicPartition(LOGS, 0), 0)
        rows = await mesh.until(lambda rows: [row.source for row in rows] == [UNKNOWN, RECORD])
        assert [row.lag_records for row in rows] == [1, 1]
        await mesh.clock.sleep(5)
        assert (await mesh.lag())[0].lag_seconds > rows[0].lag_seconds + 4

    play(scene)
