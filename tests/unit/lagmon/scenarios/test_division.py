"""Lag monitors that divide clusters: each answers for all as one alone does, while others die, sleep or join."""

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from braid.kernel.limits.lagmon.division import LAG_SHARED_STALE_SECONDS
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.kernel.ports import RpcService
from braid.rpc.directory import KnownEndpoint
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from services.lagmon.servicer.service import Lagmon
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.divided_mesh import CLUSTERS, GROUPS, PARTITIONS, DividedMesh

Scene = Callable[[DividedMesh], Coroutine[Any, Any, None]]


def play(scene: Scene, *, lagmons: int = 2) -> None:
    async def run() -> None:
        await scene(await DividedMesh().begin(lagmons))

    run_virtual(run())


def test_each_reads_its_share_and_answers_for_all() -> None:
    async def scene(mesh: DividedMesh) -> None:
        assert [len(await mesh.reads(number)) for number in (0, 1)] == [2, 2]
        assert await mesh.all_reads((0, 1)) == sorted(CLUSTERS)
        for number in (0, 1):
            assert not (await mesh.ask(f"lagmon-{number}")).catching_up
            assert not any(row.stale for row in await mesh.lag(f"lagmon-{number}"))
        await mesh.pause_work()
        for number in (0, 1):
            rows = await mesh.resembles(number)
            assert {row.epoch for row in rows} == {0, 2}

    play(scene)


EVERY = len(CLUSTERS) * GROUPS * PARTITIONS


def test_a_replica_alone_asks_nobody_and_looks_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        mesh = await DividedMesh().begin(1)
        looks = 0
        endpoints = mesh.replicas["lagmon-0"].endpoints

        async def counted() -> Sequence[KnownEndpoint]:
            nonlocal looks
            looks += 1
            return await endpoints()

        monkeypatch.setattr(mesh.replicas["lagmon-0"], "endpoints", counted)
        await mesh.clock.sleep(40.0)
        assert await mesh.reads(0) == set(CLUSTERS)
        assert looks <= 2
        await mesh.pause_work()
        await mesh.resembles(0)

    run_virtual(run())


def test_a_killed_replicas_rows_stay_until_others_read_them() -> None:
    async def scene(mesh: DividedMesh) -> None:
        orphans = await mesh.reads(1)
        for number, cluster in itertools.product((0, 2), orphans):
            mesh.links[number].cut(cluster)
        mesh.processes["lagmon-1"].kill()
        counts, oldest = await mesh.observe(0, 12.0)
        assert set(counts) == {EVERY} and oldest <= LAG_SHARED_STALE_SECONDS + 0.1
        assert {row.cluster for row in await mesh.lag() if row.stale} == orphans
        assert not (await mesh.ask()).catching_up
        for number, cluster in itertools.product((0, 2), orphans):
            mesh.links[number].mend(cluster)
        counts, oldest = await mesh.observe(0, 6.0)
        assert set(counts) == {EVERY}
        assert oldest <= LAG_SHARED_STALE_SECONDS + 0.1
        assert await mesh.all_reads((0, 2)) == sorted(CLUSTERS)
        await mesh.pause_work()
        for number in (0, 2):
            await mesh.resembles(number)

    play(scene, lagmons=3)


def test_full_view_is_back_within_seconds_of_a_kill() -> None:
    async def scene(mesh: DividedMesh) -> None:
        mesh.processes["lagmon-1"].kill()
        await mesh.clock.sleep(6.0)
        assert await mesh.reads(0) == set(CLUSTERS)
        answer = await mesh.ask("lagmon-0", detail=3)
        assert not answer.catching_up and not any(row.stale for row in answer.lags)

    play(scene)


def test_a_paused_replica_returns_and_nobody_is_wrong_meanwhile() -> None:
    """The pause is three lease times: others read the clusters, and it takes them back once it has caught up."""

    async def scene(mesh: DividedMesh) -> None:
        had = await mesh.reads(1)
        mesh.processes["lagmon-1"].pause()
        counts, oldest = await mesh.observe(0, 3 * SESSION_TTL_SECONDS + 3.0)
        assert set(counts) == {EVERY} and oldest <= LAG_SHARED_STALE_SECONDS + 0.1
        assert await mesh.reads(0) == set(CLUSTERS)
        mesh.processes["lagmon-1"].resume()
        ghost, oldest_of_ghost = await mesh.observe(1, 2.0)
        assert set(ghost) == {EVERY} and oldest_of_ghost <= LAG_SHARED_STALE_SECONDS + 0.1
        assert not any(row.stale for row in await mesh.lag("lagmon-0"))
        await mesh.clock.sleep(8.0)
        assert (await mesh.reads(1), await mesh.all_reads((0, 1))) == (had, sorted(CLUSTERS))
        await mesh.pause_work()
        for number in (0, 1):
            await mesh.resembles(number)

    play(scene)


def test_a_returned_replica_counts_once_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its ends of logs are new at once, its commits are those from before: until they are read others answer."""

    async def scene(mesh: DividedMesh) -> None:
        monkeypatch.setattr("services.lagmon.reconciler.tail.LAG_FETCH_RECORDS", 1)
        await mesh.clock.sleep(1.0)
        mesh.processes["lagmon-1"].pause()
        await mesh.clock.sleep(3 * SESSION_TTL_SECONDS + 4.0)
        truth = {(row.cluster, row.group, row.partition): row.committed_offset for row in await mesh.lag("lagmon-0")}
        mesh.fetch_seconds[1] = 0.1
        mesh.processes["lagmon-1"].resume()
        for _ in range(60):
            rows = await mesh.lag("lagmon-0")
            late = [row for row in rows if row.committed_offset < truth[row.cluster, row.group, row.partition]]
            assert not late
            await mesh.clock.sleep(0.1)

    play(scene)


def test_a_joining_replica_takes_its_share_without_a_gap() -> None:
    async def scene(mesh: DividedMesh) -> None:
        await mesh.add(1)
        counts, oldest = await mesh.observe(0, 6.0)
        assert set(counts) == {EVERY} and oldest <= 1.5
        assert await mesh.all_reads((0, 1)) == sorted(CLUSTERS)
        assert len(await mesh.reads(1)) == 2
        await mesh.pause_work()
        await mesh.resembles(1)

    play(scene, lagmons=1)


def test_a_stopped_replica_hands_over_without_stale_rows() -> None:
    async def scene(mesh: DividedMesh) -> None:
        mesh.replicas["lagmon-1"].stop()
        counts, oldest = await mesh.observe(0, 10.0)
        assert set(counts) == {EVERY} and oldest <= LAG_SHARED_STALE_SECONDS
        assert await mesh.reads(0) == set(CLUSTERS)

    play(scene)


def test_beside_an_older_release_each_reads_everything() -> None:
    async def run() -> None:
        mesh = DividedMesh()
        await mesh.begin(1)
        await mesh.serve("lagmon-1", OlderLagmon(mesh.kafka.process()))
        await mesh.clock.sleep(5.0)
        assert await mesh.reads(0) == set(CLUSTERS)
        await mesh.add(2)
        await mesh.clock.sleep(5.0)
        assert await mesh.all_reads((0, 2)) == sorted(CLUSTERS)
        await mesh.pause_work()
        for number in (0, 2):
            await mesh.resembles(number)

    run_virtual(run())


class OlderLagmon(Lagmon):
    """A lag monitor that cannot be asked for what it reads."""

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""
        service = super().rpc(replica)
        kept = {path: each for path, each in service.server_stream.items() if "ReadLagColumns" not in path}
        return RpcService(service.name, service.unary, kept, {})


def test_a_reader_cut_off_from_its_cluster_is_relieved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader answers peers, and sees no ends of logs: after a while the next replica reads the cluster too."""
    patience = 12.0  # instead of half a minute
    monkeypatch.setattr("services.lagmon.division.reading.LAG_TAKEOVER_SECONDS", patience)

    async def scene(mesh: DividedMesh) -> None:
        cut = min(await mesh.reads(1))
        mesh.links[1].cut(cut)
        await mesh.clock.sleep(patience - 2.0)
        for number in (0, 1):
            assert {row.cluster for row in await mesh.lag(f"lagmon-{number}") if row.stale} == {cut}
        await mesh.clock.sleep(10.0)
        for number in (0, 1):
            assert not any(row.stale for row in await mesh.lag(f"lagmon-{number}"))
        assert await mesh.all_reads((0, 1)) == sorted([*CLUSTERS, cut])
        mesh.links[1].mend(cut)
        await mesh.clock.sleep(8.0)
        assert await mesh.all_reads((0, 1)) == sorted(CLUSTERS)
        await mesh.pause_work()
        for number in (0, 1):
            await mesh.resembles(number)

    play(scene)


def test_replicas_cut_off_from_each_other_read_everything_each() -> None:
    async def scene(mesh: DividedMesh) -> None:
        mesh.network.cut("lagmon-0", "lagmon-1")
        counts, _ = await mesh.observe(0, 15.0)
        assert set(counts) == {EVERY}
        assert await mesh.all_reads((0, 1)) == sorted(2 * CLUSTERS)
        mesh.network.heal("lagmon-0", "lagmon-1")
        await mesh.clock.sleep(6.0)
        assert await mesh.all_reads((0, 1)) == sorted(CLUSTERS)

    play(scene)


def test_while_the_store_is_down_nothing_changes() -> None:
    async def scene(mesh: DividedMesh) -> None:
        before = [await mesh.reads(number) for number in (0, 1)]
        stores = [mesh.replicas[f"lagmon-{number}"].store for number in (0, 1)]
        for store in stores:
            assert isinstance(store, MemoryStore)
            store.disconnect()
        counts, oldest = await mesh.observe(0, 3 * SESSION_TTL_SECONDS)
        assert set(counts) == {EVERY} and oldest <= 1.5
        assert [await mesh.reads(number) for number in (0, 1)] == before
        for store in stores:
            assert isinstance(store, MemoryStore)
            store.reconnect()
        counts, oldest = await mesh.observe(0, 8.0)
        assert set(counts) == {EVERY} and oldest <= 1.5
        assert [await mesh.reads(number) for number in (0, 1)] == before

    play(scene)
