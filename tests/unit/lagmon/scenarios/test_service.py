"""The lag monitor as a whole on virtual time: commits, stalls, clusters and groups that come, die and go."""

import math

import pytest

from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.errors import Invalid
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from tests.unit.lagmon.mesh import LOGS, Mesh
from tests.unit.lagmon.scenarios.scenes import DONE, ENVELOPE, metric, play, records


def test_gaps_count_and_the_envelopes_age_grows() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.produce(20)
        born = mesh.clock.now_ms()
        mesh.commit("g", EnvelopeFields(base=5, done=Ranges([(7, 20)]), oldest_ingested_at_ms=born, epoch=9))
        mesh.assigner.groups = {"g": []}
        (row,) = await mesh.until(lambda rows: [row.source for row in rows] == [ENVELOPE])
        assert (row.lag_records, row.committed_offset, row.end_offset, row.epoch) == (2, 5, 20, 9)
        assert (row.stream, row.lane, row.cluster, row.topic) == ("logs", "live", "east", LOGS)
        assert not row.foreign and not row.stale
        await mesh.clock.sleep(30)
        (row,) = await mesh.lag()
        assert row.lag_seconds == pytest.approx((mesh.clock.now_ms() - born) / 1000, abs=0.2)
        mesh.commit("g", EnvelopeFields(base=20, head_ingested_at_ms=born))
        (row,) = await mesh.until(lambda rows: rows[0].source == DONE, 2)
        assert (row.lag_records, row.lag_seconds) == (0, 0.0)

    play(scene)


def test_logs_that_a_group_begins_with_are_looked_at_at_once() -> None:
    """At once, not at the next look: otherwise a question right after a first commit would get a stale row."""

    async def scene(mesh: Mesh) -> None:
        mesh.commit("first", 0, topic="other")
        for number in range(5):
            mesh.kafka.named("east").create_topic(f"topic-{number}", 1, 1, {})
            mesh.commit("tool", 0, topic=f"topic-{number}")
            await mesh.clock.sleep(0.2 + number / 50)
            rows = [row for row in await mesh.lag() if row.group == "tool"]
            assert [(row.topic, row.stale) for row in rows] == [(f"topic-{at}", False) for at in range(number + 1)]

    play(scene)


def test_an_unregistered_groups_envelopes_and_tombstones_go_away() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": [], "h": []}
        mesh.produce(4)
        for group in ("g", "h", "tool"):
            mesh.commit(group, 0 if group == "tool" else EnvelopeFields(base=1))
        await mesh.until(lambda rows: [row.group for row in rows] == ["g", "h", "tool"])
        del mesh.assigner.groups["h"]
        mesh.commit("tool", None)
        await mesh.until(lambda rows: [row.group for row in rows] == ["g"], 4)
        mesh.commit("g", None)
        (row,) = await mesh.until(lambda rows: [row.committed_offset for row in rows] == [-1], 4)
        assert row.lag_records == 4

    play(scene)


def test_a_drained_channel_lags_by_0_and_a_retired_one_is_gone() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": []}
        mesh.produce(2)
        mesh.commit("g", EnvelopeFields(base=2))
        await mesh.kafka.cluster("east:9092", "").admin().try_append(TopicPartition(LOGS, 0), SEAL_CANARY, 1.0)
        mesh.channel(partitions=1, state="DRAINING")
        (row,) = await mesh.until(lambda rows: rows and rows[0].end_offset == 3)
        await mesh.until(lambda rows: rows[0].source == DONE, 4)
        mesh.channel(partitions=1, state="DRAINED")
        mesh.commit("g", EnvelopeFields(base=1))
        await mesh.clock.sleep(5)
        (row,) = await mesh.lag()
        assert (row.lag_records, row.lag_seconds, row.source) == (0, 0.0, DONE)
        mesh.channel(partitions=1, state="RETIRED")
        await mesh.until(lambda rows: not rows, 3)

    play(scene)


def test_a_drained_channel_lags_for_a_group_yet_to_read_it() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1, state="DRAINED")
        mesh.assigner.groups = {"new": [], "old": []}
        mesh.assigner.reading = {"new": ["logs/live/1"]}
        mesh.produce(3)
        (row,) = await mesh.until(lambda rows: [row.lag_records for row in rows] == [3], 5)
        assert (row.group, row.lane, row.topic) == ("new", "live", LOGS)
        mesh.commit("new", EnvelopeFields(base=1, oldest_ingested_at_ms=mesh.clock.now_ms() - 9_000))
        mesh.commit("old", EnvelopeFields(base=1))
        rows = await mesh.until(lambda rows: [row.lag_records for row in rows] == [2, 0], 5)
        assert rows[0].lag_seconds == pytest.approx(9, abs=2)
        mesh.assigner.reading = {}
        await mesh.until(lambda rows: [row.lag_records for row in rows] == [0, 0], 5)

    play(scene)


def test_a_dead_clusters_rows_are_stale_and_grow_and_it_returns() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": []}
        mesh.produce(4)
        mesh.commit("g", EnvelopeFields(base=1, oldest_ingested_at_ms=mesh.clock.now_ms()))
        mesh.commit("w", EnvelopeFields(base=0), cluster="west", topic="elsewhere")
        await mesh.until(lambda rows: [row.source for row in rows if row.group == "g"] == [ENVELOPE])
        before = (await mesh.lag(group="g"))[0]
        mesh.kafka.named("east").kill()
        await mesh.clock.sleep(20)
        (row,) = await mesh.lag(group="g")
        assert row.stale and row.lag_records == 3
        assert row.lag_seconds - before.lag_seconds == pytest.approx(20, abs=0.2)
        assert row.as_of_ms <= before.as_of_ms + 600
        mesh.kafka.named("east").start()
        mesh.commit("g", EnvelopeFields(base=4))
        await mesh.until(lambda rows: [(r.source, r.stale) for r in rows if r.group == "g"] == [(DONE, False)], 10)

    play(scene, clusters=("east", "west"))


def test_clusters_come_and_go() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.kafka.named("east").create_topic("other", 1, 1, {})
        mesh.kafka.add_cluster("north").create_topic("other", 1, 1, {})
        mesh.kafka.named("north").create_topic(OFFSETS_TOPIC, 2, 1, {})
        mesh.commit("tool", 0, topic="other")
        mesh.commit("tool", 0, topic="other", cluster="north")
        await mesh.until(lambda rows: [row.cluster for row in rows] == ["east"])
        mesh.registry.clusters.append("north")
        await mesh.until(lambda rows: [row.cluster for row in rows] == ["east", "north"], 4)
        mesh.registry.clusters.remove("east")
        await mesh.until(lambda rows: [row.cluster for row in rows] == ["north"], 4)

    play(scene)


def test_a_cut_or_recreated_offset_log_is_read_again() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=2)
        mesh.assigner.groups = {"g": []}
        for base in (1, 2, 3):
            mesh.commit("g", EnvelopeFields(base=base))
        mesh.commit("g", EnvelopeFields(base=7), 1)
        await mesh.until(lambda rows: [row.committed_offset for row in rows] == [3, 7])
        east = mesh.kafka.named("east")
        east.truncate(TopicPartition(OFFSETS_TOPIC, 0), 1)
        await mesh.until(lambda rows: [row.committed_offset for row in rows] == [1, 7], 5)
        east.delete_topic(OFFSETS_TOPIC)
        east.create_topic(OFFSETS_TOPIC, 2, 1, {})
        mesh.commit("g", EnvelopeFields(base=9), 1)
        await mesh.until(lambda rows: [row.committed_offset for row in rows] == [-1, 9], 12)

    play(scene)


def test_damaged_records_cost_their_neighbours_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": []}
        mesh.produce(9)
        mesh.commit("g", EnvelopeFields(base=4))
        for key, value in [
            (b"", b""),
            (b"\0\1\0\xff", b"x"),
            (b"\0\2\0\1g", b"?"),
            (b"\0\1\0\1h\0\1t\0\0\0\0", b"\0\4"),
        ]:
            mesh.offset_record(key, value)
        mesh.commit("k", EnvelopeFields(base=2), topic="mirror")
        mesh.commit("g", EnvelopeFields(base=6))
        await mesh.until(lambda rows: [row.committed_offset for row in rows if row.group == "g"] == [6])
        assert await metric(mesh, "braid_lagmon_offset_records_total", outcome="damaged") == 3
        assert await metric(mesh, "braid_lagmon_offset_records_total", outcome="other") == 1

    play(scene)


def test_an_undecodable_offset_batch_is_passed_over_and_counted() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        for base in (1, 2, 3):
            mesh.commit("g", EnvelopeFields(base=base))
        mesh.commit("h", EnvelopeFields(base=4))
        mesh.kafka.named("east").damage(TopicPartition(OFFSETS_TOPIC, 0), 2, "a bomb")
        mesh.assigner.groups = {"g": [], "h": []}
        await mesh.until(lambda rows: [row.committed_offset for row in rows] == [2, 4])
        assert await metric(mesh, "braid_lagmon_offset_records_total", outcome="damaged") == 1

    play(scene)


def test_a_second_replica_answers_complete_rows_at_once() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=2)
        mesh.assigner.groups = {"g": []}
        mesh.produce(5)
        mesh.commit("g", EnvelopeFields(base=2, oldest_ingested_at_ms=mesh.clock.now_ms()))
        for instance in ("lagmon-0", "lagmon-1"):
            await mesh.until(lambda rows: records(rows) == [3, 0], instance=instance)
        before = await mesh.lag("lagmon-0")
        mesh.processes["lagmon-0"].kill()
        answer = await mesh.ask("lagmon-1", detail=3)
        assert list(answer.catching_up) == []
        assert [(row.partition, row.lag_records, row.source) for row in answer.lags] == [
            (row.partition, row.lag_records, row.source) for row in before
        ]

    play(scene, lagmons=2)


def test_a_watch_starts_with_everything_then_sends_changes() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=2)
        mesh.assigner.groups = {"g": []}
        for partition in (0, 1):
            mesh.commit("g", EnvelopeFields(base=0), partition)
        await mesh.until(lambda rows: [row.source for row in rows] == [DONE, DONE])
        watch = mesh.watch(detail=3, interval_ms=200)
        assert [row.partition for row in (await anext(watch)).lags] == [0, 1]
        quiet = await anext(watch)
        assert not quiet.lags and not quiet.gone and quiet.time_ms
        mesh.produce(2, 1)
        while not (answer := await anext(watch)).lags:
            continue
        assert [(row.partition, row.lag_records) for row in answer.lags] == [(1, 2)]
        mesh.assigner.groups = {}
        while not (answer := await anext(watch)).gone:
            continue
        assert [(row.group, row.partition) for row in answer.gone] == [("g", 0), ("g", 1)]

    play(scene)


def test_pages_and_wrong_requests() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=5)
        mesh.assigner.groups = {"g": []}
        await mesh.until(lambda rows: len(rows) == 5)
        first = await mesh.ask(detail=3, page_size=3)
        rest = await mesh.ask(detail=3, page_size=3, page_token=first.next_page_token)
        assert [row.partition for row in (*first.lags, *rest.lags)] == [0, 1, 2, 3, 4]
        assert rest.next_page_token == "" and first.time_ms
        wrong: list[tuple[str, object]] = [("detail", 8), ("page_token", "?"), ("page_size", -1)]
        for field, value in wrong:
            with pytest.raises(Invalid) as refused:
                await mesh.ask("lagmon-0", **{field: value})
            assert refused.value.field == field and refused.value.remedy
        with pytest.raises(Invalid) as refused:
            await anext(mesh.watch(interval_ms=5))
        assert refused.value.field == "interval_ms"

    play(scene)


def test_gauges_show_groups_and_forget_those_that_are_gone() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=2)
        mesh.assigner.groups = {"g": []}
        mesh.produce(4)
        mesh.produce(1, 1)
        await mesh.until(lambda rows: records(rows) == [4, 1])
        await mesh.clock.sleep(2)
        labels = {"stream": "logs", "lane": "live", "group": "g", "cluster": "east"}
        assert await metric(mesh, "braid_group_lag_records", **labels) == 5
        seconds = await metric(mesh, "braid_group_lag_seconds", **labels)
        assert seconds is not None and 1 < seconds < 60 and math.isfinite(seconds)
        shown = await metric(mesh, "kafka_consumergroup_lag", consumergroup="g", topic=LOGS, partition="0")
        assert shown == 4
        mesh.assigner.groups = {}
        await mesh.clock.sleep(4)
        assert await metric(mesh, "braid_group_lag_records", **labels) is None

    play(scene)
