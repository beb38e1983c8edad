"""Lag over time is the same whichever replica answers, also where one of them was away."""

from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon.servicer.service import Lagmon
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
STEP_MS = 10_000
GROUPS = ("g0", "g1", "g2")
ASKED_MS = 100_000
AWAY_SECONDS = 45.0


def play(scene: Scene) -> None:
    async def run() -> None:
        mesh = await Mesh(("east",)).start(2)
        mesh.channel(partitions=1)
        mesh.assigner.groups = dict.fromkeys(GROUPS, ())
        mesh.me.tasks.spawn(work(mesh), "groups")
        await mesh.clock.sleep(40.0)
        await scene(mesh)

    run_virtual(run())


async def work(mesh: Mesh) -> None:
    """All groups fall behind, each by so much."""
    second = 0
    while True:
        second += 1
        mesh.produce(10)
        for number, group in enumerate(GROUPS):
            mesh.commit(group, EnvelopeFields((8 - number) * second, oldest_ingested_at_ms=mesh.clock.now_ms() - 900))
        await mesh.clock.sleep(1.0)


async def asked(mesh: Mesh, number: int, **request: object) -> api.ListLagHistoryResponse:
    """The rows of one replica's answer that must be closed by now."""
    until_ms = mesh.clock.now_ms() // STEP_MS * STEP_MS - STEP_MS
    how = {"step_ms": STEP_MS, "since_ms": until_ms - ASKED_MS, "until_ms": until_ms, **request}
    return await mesh.history(f"lagmon-{number}", group="", **how)


async def check_alike(mesh: Mesh, behind: int) -> None:
    """Both replicas answer the same rows without a gap, though one of them lacks some."""
    first, second = await asked(mesh, 0), await asked(mesh, 1)
    assert first.histories == second.histories
    assert [history.group for history in first.histories] == list(GROUPS)
    for history in first.histories:
        assert len(history.steps) >= ASKED_MS // STEP_MS - 1
        assert all(after.time_ms - before.time_ms == STEP_MS for before, after in pairwise(history.steps))
    assert first.kept_since_ms == second.kept_since_ms > 0
    own = await asked(mesh, behind, own_only=True)
    lacking = len(first.histories[0].steps) - len(own.histories[0].steps)
    assert lacking >= 3, "the replica that was away must lack rows, or this shows nothing"
    assert not first.silent and not second.silent


def test_a_killed_replica_answers_what_it_never_saw() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.processes["lagmon-1"].kill()
        await mesh.clock.sleep(AWAY_SECONDS)
        await mesh.serve("lagmon-1", Lagmon(mesh.kafka.process()))  # without what it kept
        await mesh.clock.sleep(35.0)
        await check_alike(mesh, behind=1)

    play(scene)


@pytest.mark.parametrize("paused", [0, 1])
def test_a_paused_replica_answers_what_it_slept_through(paused: int) -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.processes[f"lagmon-{paused}"].pause()
        await mesh.clock.sleep(AWAY_SECONDS)
        mesh.processes[f"lagmon-{paused}"].resume()
        await mesh.clock.sleep(35.0)
        await check_alike(mesh, behind=paused)

    play(scene)


def test_pages_over_replicas_hold_every_history_once() -> None:
    async def scene(mesh: Mesh) -> None:
        whole = await asked(mesh, 0)
        found, token = list[lag_history_pb2.LagHistory](), ""
        for _ in GROUPS:
            page = await asked(mesh, len(found) % 2, page_size=1, page_token=token)
            assert len(page.histories) == 1
            found += page.histories
            token = page.next_page_token
        assert token == ""
        assert [history.group for history in found] == [history.group for history in whole.histories]

    play(scene)


def test_a_replica_that_does_not_answer_is_named() -> None:
    async def scene(mesh: Mesh) -> None:
        mesh.processes["lagmon-1"].pause()
        answer = await asked(mesh, 0)
        assert list(answer.silent) == ["lagmon-1"]
        assert len(answer.histories) == len(GROUPS)
        await mesh.clock.sleep(20.0)  # it counts no more: nothing is expected of it
        assert not (await asked(mesh, 0)).silent
        mesh.processes["lagmon-1"].resume()

    play(scene)
