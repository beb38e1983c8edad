"""Lag over time as callers see it: kept through a kill, never invented, and in every row its trend."""

from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from braid.api.lagmon.v1 import lag_history_pb2
from braid.kernel.errors import Invalid
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon.kept.files import MemoryFiles
from services.lagmon.servicer.service import Lagmon
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
STEP_MS = 10_000


def play(scene: Scene, files: MemoryFiles | None = None) -> None:
    async def run() -> None:
        mesh = await Mesh(("east",)).start(files=files)
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": []}
        await scene(mesh)

    run_virtual(run())


async def work(mesh: Mesh, seconds: int, *, produced: int, done: int, state: list[int]) -> None:
    """Produces and commits once a second; `state` holds the end and what is done of the log."""
    for _ in range(seconds):
        state[0] += produced
        state[1] = min(state[0], state[1] + done)
        mesh.produce(produced)
        oldest = None if state[1] == state[0] else mesh.clock.now_ms() - 1000 * ((state[0] - state[1]) // 10)
        mesh.commit("g", EnvelopeFields(base=state[1], oldest_ingested_at_ms=oldest))
        await mesh.clock.sleep(1.0)


async def steps(mesh: Mesh, instance: str = "lagmon-0", **request: object) -> list[lag_history_pb2.LagStep]:
    """The rows of the one lane since the beginning."""
    known = {"since_ms": mesh.clock.now_ms() - 3_600_000, "step_ms": STEP_MS, **request}
    (history,) = (await mesh.history(instance, group="g", **known)).histories
    assert (history.group, history.stream, history.lane) == ("g", "logs", "live")
    return list(history.steps)


def test_a_group_that_falls_behind_and_recovers_is_seen() -> None:
    async def scene(mesh: Mesh) -> None:
        state = [0, 0]
        await work(mesh, 60, produced=10, done=10, state=state)
        await work(mesh, 60, produced=10, done=4, state=state)
        (behind,) = await lanes(mesh)
        assert behind.trend_per_s == pytest.approx(6.0, abs=1.5)
        assert not behind.HasField("seconds_to_zero")
        await work(mesh, 62, produced=10, done=14, state=state)  # the last step ended two seconds ago, and is taken
        (recovering,) = await lanes(mesh)
        assert recovering.trend_per_s == pytest.approx(-4.0, abs=1.5)
        assert recovering.seconds_to_zero == pytest.approx(recovering.lag_records / 4, rel=0.5)
        found = await steps(mesh)
        records = [step.lag_records for step in found]
        assert max(records) == pytest.approx(360, abs=20)
        assert records.index(max(records)) == pytest.approx(11, abs=2)
        assert [step.done_per_s for step in found[7:11]] == pytest.approx([4.0] * 4, abs=1.0)
        assert [step.produced_per_s for step in found[7:11]] == pytest.approx([10.0] * 4, abs=1.0)
        assert max(step.max_lag_seconds for step in found) > 30

    play(scene)


async def lanes(mesh: Mesh) -> list[Any]:
    """The rows of lanes now."""
    return list((await mesh.ask(detail=1)).lags)


def test_rows_outlive_a_kill_and_the_gap_is_a_gap() -> None:
    files = MemoryFiles()

    async def scene(mesh: Mesh) -> None:
        state = [0, 0]
        await work(mesh, 120, produced=10, done=5, state=state)
        before = await steps(mesh)
        mesh.processes["lagmon-0"].kill()
        await mesh.clock.sleep(95)
        await mesh.serve("lagmon-1", Lagmon(mesh.kafka.process(), files))
        await work(mesh, 60, produced=10, done=5, state=state)
        after = await steps(mesh, "lagmon-1")
        assert after[: len(before)] == before
        times = [step.time_ms for step in after]
        gaps = [later - time for time, later in pairwise(times)]
        assert [gap for gap in gaps if gap != STEP_MS] == [pytest.approx(100_000, abs=20_000)]
        assert not after[len(before)].HasField("produced_per_s")
        assert (await mesh.history("lagmon-1", since_ms=1 + times[0])).kept_since_ms == times[0]

    play(scene, files)


def test_a_cluster_that_is_away_leaves_rows_without_lag() -> None:
    async def scene(mesh: Mesh) -> None:
        await work(mesh, 40, produced=10, done=5, state=[0, 0])
        mesh.kafka.named("east").kill()
        await mesh.clock.sleep(60)
        found = await steps(mesh)
        assert found[-1].stale
        for field in (
            "max_lag_seconds",
            "min_lag_seconds",
            "lag_seconds",
            "lag_records",
            "produced_per_s",
            "done_per_s",
        ):
            assert not found[-1].HasField(field)
        (row,) = await lanes(mesh)
        assert row.stale and not row.HasField("trend_per_s")

    play(scene)


def test_longer_rows_sum_up_the_short() -> None:
    async def scene(mesh: Mesh) -> None:
        await work(mesh, 130, produced=10, done=5, state=[0, 0])
        since_ms = mesh.clock.now_ms() - 3_600_000
        short, long = await steps(mesh), await steps(mesh, step_ms=60_000)
        assert sum(step.known_seconds for step in long) == pytest.approx(sum(step.known_seconds for step in short))
        assert max(step.max_lag_seconds for step in long) == max(step.max_lag_seconds for step in short)
        assert min(step.min_lag_seconds for step in long) == min(step.min_lag_seconds for step in short)
        for step in (*short, *long):
            assert step.min_lag_seconds <= step.lag_seconds <= step.max_lag_seconds
        assert any(step.min_lag_seconds < step.max_lag_seconds for step in short)
        assert long[-1].lag_records == short[-1].lag_records
        chosen = await mesh.history(since_ms=since_ms)
        assert chosen.step_ms == STEP_MS
        far = await mesh.history(since_ms=mesh.clock.now_ms() - 29 * 86_400_000)
        assert far.step_ms == 300_000
        assert sum(step.known_seconds for step in far.histories[0].steps) == pytest.approx(
            sum(step.known_seconds for step in short)
        )

    play(scene)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({}, "since_ms"),
        ({"since_ms": -5}, "since_ms"),
        ({"since_ms": 1 << 62}, "since_ms"),
        ({"since_ms": 1_000}, "since_ms"),
        ({"since_ms": 90_000, "until_ms": 80_000}, "until_ms"),
        ({"since_ms": 90_000, "until_ms": -1}, "until_ms"),
        ({"since_ms": 10_000, "until_ms": 90_000, "step_ms": 15_000}, "step_ms"),
        ({"since_ms": 10_000, "until_ms": 90_000, "step_ms": -10_000}, "step_ms"),
        ({"since_ms": 10_000, "until_ms": 90_000, "step_ms": 310_000}, "step_ms"),
        ({"since_ms": 10_000, "until_ms": 86_400_000 * 3, "step_ms": 10_000}, "step_ms"),
        ({"since_ms": 10_000, "until_ms": 90_000, "page_size": -1}, "page_size"),
        ({"since_ms": 10_000, "until_ms": 90_000, "page_token": '["a"]'}, "page_token"),
    ],
)
def test_a_range_out_of_form_is_refused_with_its_field(request_: dict[str, object], field: str) -> None:
    async def scene(mesh: Mesh) -> None:
        with pytest.raises(Invalid) as refused:
            await mesh.history(**request_)  # type: ignore[arg-type]
        assert refused.value.field == field
        assert refused.value.remedy

    play(scene)


def test_pages_hold_whole_histories() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.assigner.groups = {name: [] for name in ("a", "b", "c")}
        await mesh.clock.sleep(30)
        since_ms = mesh.clock.now_ms() - 60_000
        found, token = [], ""
        while True:
            page = await mesh.history(since_ms=since_ms, page_size=1, page_token=token)
            found += [(history.group, len(history.steps)) for history in page.histories]
            token = page.next_page_token
            if not token:
                break
        assert [group for group, _ in found] == ["a", "b", "c"]
        assert all(count >= 2 for _, count in found)

    play(scene)
