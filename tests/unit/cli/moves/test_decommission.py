"""`decommission`: what it says before, meanwhile and at the end; taken back, blocked, waited for."""

import asyncio
import json
from typing import Final

from braid.cli.core.endpoints import Choice
from braid.cli.core.execution import RUNNER, Job
from tests.unit.cli.mesh import Result, Shell, virtual

EMPTY_EAST: Final = ("decommission", "cluster", "east", "--yes")


async def with_stream(*clusters: str) -> Shell:
    """A stream on east with its spares on west."""
    shell = await Shell().start("east", *clusters)
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    await asyncio.sleep(1.0)
    return shell


@virtual
async def test_a_dry_run_says_what_would_leave() -> None:
    shell = await with_stream("west")
    assert (await shell.braid("decommission", "cluster", "east", "--dry-run")) == Result(
        0,
        "cluster/east would be emptied (dry run: nothing was changed)\n"
        "  logs: dlq, live → west\n"
        "  topics that are drained stay for their streams' retention (--discard-drained)\n",
        "",
    )
    assert "HEALTHY " in (await shell.braid("get", "clusters")).out.splitlines()[1]


@virtual
async def test_it_is_waited_for_until_nothing_is_left_then_deleted() -> None:
    shell = await with_stream("west")
    begun = await shell.braid(*EMPTY_EAST, "--reason", "new disks", "--discard-drained", "--wait")
    assert begun.code == 0, begun
    lines = begun.out.splitlines()
    assert lines[:4] == [
        "cluster/east is being emptied: it takes no new traffic, and what is on it leaves",
        "  logs: dlq, live → west",
        "  topics that are drained are deleted at once",
        "how far it is: braid describe cluster east",
    ]
    assert lines[-1] == "cluster/east empty: nothing is left on it"
    assert "HEALTHY (empty)" in (await shell.braid("get", "clusters")).out
    assert (await shell.braid("delete", "cluster", "east", "--yes")).out == "cluster/east deleted\n"


@virtual
async def test_what_is_kept_is_said_and_holds_the_cluster() -> None:
    shell = await with_stream("west")
    assert (await shell.braid(*EMPTY_EAST, "--reason", "new disks")).code == 0
    await asyncio.sleep(5.0)
    described = (await shell.braid("describe", "cluster", "east")).out
    assert "Decommission: keeping: 1 stream left, channels: 2 drained\n  reason: new disks\n" in described
    assert "drained topics are kept until " in described and "cluster east --discard-drained" in described
    refused = await shell.braid("delete", "cluster", "east", "--yes")
    assert refused.code == 4 and "(DRAINED) is still on cluster east" in refused.err
    assert "braid describe cluster east" in refused.err
    late = await shell.braid(*EMPTY_EAST, "--wait", "--timeout", "3")
    assert late.code == 3 and "keeping: 1 stream left" in late.err
    assert "it is being decommissioned: keeping" in (await shell.braid("doctor")).out


@virtual
async def test_blocked_streams_are_named_with_their_reason() -> None:
    shell = await with_stream()
    begun = await shell.braid(*EMPTY_EAST)
    assert "  logs stays: no cluster can take the traffic: there is no other cluster\n" in begun.out
    assert "HEALTHY (blocked)" in (await shell.braid("get", "clusters")).out
    described = (await shell.braid("describe", "cluster", "east")).out
    assert "channels: 2 active; 1 stream blocked\n  blocked: logs: no cluster can take the traffic" in described


@virtual
async def test_taken_back_it_stays() -> None:
    shell = await with_stream()
    nothing = await shell.braid("decommission", "cluster", "east", "--cancel", "--dry-run")
    assert nothing.out == "cluster/east would stay (dry run: nothing was changed)\n"
    assert (await shell.braid(*EMPTY_EAST)).code == 0
    assert (await shell.braid("uncordon", "cluster", "east")).code == 4
    told = "cluster/east stays and takes traffic again; what has left is where it went\n"
    assert (await shell.braid("decommission", "cluster", "east", "--cancel")) == Result(0, told, "")
    assert (await shell.braid("cordon", "cluster", "east")).code == 0
    still = (await shell.braid("decommission", "cluster", "east", "--cancel")).out
    assert still == "cluster/east stays; it is still cordoned; what has left is where it went\n"


@virtual
async def test_somebody_who_waits_hears_that_it_was_taken_back() -> None:
    shell = await with_stream()
    waiting = asyncio.ensure_future(_job(shell, *EMPTY_EAST, "--wait"))
    await asyncio.sleep(3.0)
    await shell.braid("decommission", "cluster", "east", "--cancel")
    ended = await waiting
    assert ended.code == 4 and "was taken back" in ended.err


@virtual
async def test_a_wait_outlives_the_registrys_leader() -> None:
    shell = await with_stream("west")
    await shell.replica("registry-1")
    waiting = asyncio.ensure_future(_job(shell, *EMPTY_EAST, "--discard-drained", "--wait"))
    await asyncio.sleep(0.3)
    shell.kill("registry-0")
    ended = await waiting
    assert ended.code == 0 and ended.out.endswith("empty: nothing is left on it\n"), ended


@virtual
async def test_as_json_it_is_the_answer_itself() -> None:
    shell = await with_stream("west")
    told = json.loads((await shell.braid("decommission", "cluster", "east", "--dry-run", "-o", "json")).out)
    assert told["departures"][0]["stream"] == "logs"
    assert told["cluster"]["status"]["decommission"]["state"] == "moving"


async def _job(shell: Shell, *arguments: str) -> Result:
    """Runs a command like `Shell.braid`, but in parallel: only its parsing touches the process's outputs."""
    jobs: list[Job] = []

    def keep(choice: Choice, job: Job) -> int:
        jobs.append(job)
        return 0

    from braid.cli import app

    token = RUNNER.set(keep)
    try:
        assert app.run(arguments) == 0
    finally:
        RUNNER.reset(token)
    return await shell.work(jobs[0])
