"""Rows of groups asked for by name: newer than the last table, also where another replica reads the cluster."""

import pytest

from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.limits.lagmon.sampling import LAG_ENDS_SECONDS
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon.reconciler.ends import RecordProber
from services.lagmon.reconciler.term import Clusters, Table
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.divided_mesh import CLUSTERS, PARTITIONS, DividedMesh
from tests.unit.lagmon.mesh import Mesh
from tests.unit.lagmon.scenarios.scenes import play

LOOK = LAG_ENDS_SECONDS + 0.1


async def ready(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups that have done all of three records; lists come from a table that is not computed again."""
    mesh.channel(partitions=1)
    mesh.assigner.groups = {"a": [], "b": []}
    mesh.produce(3)
    for group in ("a", "b"):
        mesh.commit(group, EnvelopeFields(base=3, head_ingested_at_ms=mesh.clock.now_ms()))
    await mesh.until(lambda rows: behind(rows) == [("a", 0), ("b", 0)])
    await keep_tables(mesh, monkeypatch)


async def keep_tables(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replica answers with the table that it has now."""
    compute, known = Clusters.last_table, dict[Clusters, Table]()

    async def last_table(clusters: Clusters) -> Table:
        if clusters not in known:
            known[clusters] = await compute(clusters)
        return known[clusters]

    for name in ("last_table", "any_table"):
        monkeypatch.setattr(Clusters, name, last_table)
    for instance in mesh.replicas:
        if instance.startswith("lagmon"):
            await mesh.ask(instance)


def behind(rows: list[lag_pb2.Lag]) -> list[tuple[str, int]]:
    return [(row.group, row.lag_records) for row in rows]


def test_named_groups_are_newer_than_the_last_table(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        await ready(mesh, monkeypatch)
        mesh.produce(2)
        await mesh.clock.sleep(LOOK)
        assert behind(await mesh.lag()) == [("a", 0), ("b", 0)], "the table is older"
        assert behind(await mesh.lag(group="a")) == [("a", 2)]
        some = await mesh.ask(detail=1, filter=api.LagFilter(groups=["b", "none"]))
        assert behind(list(some.lags)) == [("b", 2)]
        before = (await mesh.lag(group="a"))[0].lag_seconds
        await mesh.clock.sleep(4.0)
        (row,) = await mesh.lag(group="a")
        assert row.lag_seconds == pytest.approx(before + 4.0, abs=LAG_ENDS_SECONDS) and not row.stale

    play(scene)


def test_very_many_rows_are_as_the_table_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lagmon.reconciler.term.LAG_RENEWED_ROWS_MAX", 1)

    async def scene(mesh: Mesh) -> None:
        await ready(mesh, monkeypatch)
        mesh.produce(2)
        await mesh.clock.sleep(LOOK)
        both = await mesh.ask(detail=3, filter=api.LagFilter(groups=["a", "b"]))
        assert behind(list(both.lags)) == [("a", 0), ("b", 0)]
        assert behind(await mesh.lag(group="a")) == [("a", 2)]

    play(scene)


@pytest.mark.parametrize("gone", [False, True])
def test_named_groups_of_a_cluster_that_goes_grow_older(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster dies, or this replica reads it no more."""

    async def scene(mesh: Mesh) -> None:
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"a": []}
        mesh.produce(5)
        mesh.commit("a", EnvelopeFields(base=3, oldest_ingested_at_ms=mesh.clock.now_ms()))
        await mesh.until(lambda rows: behind(rows) == [("a", 2)])
        await keep_tables(mesh, monkeypatch)
        before = (await mesh.lag(group="a"))[0].lag_seconds
        if gone:
            mesh.registry.clusters.remove("east")
        else:
            mesh.kafka.named("east").kill()
        await mesh.clock.sleep(20.0)
        (row,) = await mesh.lag(group="a")
        assert (row.lag_records, row.stale) == (2, True)
        assert row.lag_seconds == pytest.approx(before + 20.0, abs=0.1)

    play(scene)


def test_named_groups_of_anothers_cluster_are_as_it_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        mesh = await DividedMesh().begin(2)
        assert [len(await mesh.reads(number)) for number in (0, 1)] == [2, 2]
        await keep_tables(mesh, monkeypatch)
        await mesh.clock.sleep(3.0)
        await mesh.pause_work()
        table = {_place(row): row.end_offset for row in await mesh.lag("lagmon-0")}
        for number in (0, 1):
            found = await mesh.lag(f"lagmon-{number}", group="g1")
            assert len(found) == len(CLUSTERS) * PARTITIONS
            for row in found:
                assert row.end_offset > table[_place(row)] and not row.stale

    run_virtual(scene())


def _place(row: lag_pb2.Lag) -> tuple[str, str, int]:
    return row.group, row.cluster, row.partition


def test_looks_at_ends_do_not_wait_for_records_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        async def reads_long(prober: RecordProber, view: object) -> int:
            await mesh.clock.sleep(30.0)
            return 0

        monkeypatch.setattr(RecordProber, "read_due", reads_long)
        await ready(mesh, monkeypatch)
        await mesh.clock.sleep(5.0)
        for _ in range(5):
            before = (await mesh.lag(group="a"))[0].end_offset
            mesh.produce(1)
            await mesh.clock.sleep(LOOK)
            (row,) = await mesh.lag(group="a")
            assert row.end_offset == before + 1 and not row.stale

    play(scene)
