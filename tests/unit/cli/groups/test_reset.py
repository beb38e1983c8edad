"""`reset`: progress is moved with nobody at work on it, by the leader alone, and can be taken back."""

import asyncio
import json

import pytest

from braid.kernel.envelope import decode, encode
from braid.kernel.errors import BraidError
from braid.kernel.ports import Committed, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.assigner.model import generations
from services.assigner.reconciler.group_loop import GROUPS as KIND
from tests.support.consumer_parts import cluster_work
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import TOPIC, consumed, produced, user

PLACE = TopicPartition(TOPIC, 0)
RESET = ("reset", "group", "g", "--stream", "logs")


async def with_progress(*, assigners: int = 1) -> Shell:
    """Five records of one partition, all of them done by a group whose member left."""
    shell = await Shell().start("east", assigners=assigners)
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await asyncio.sleep(2.0)
    await produced(shell, b"1", b"2", b"3", b"4", b"5")
    await consumed(shell, 5)
    return shell


async def committed(shell: Shell) -> Committed:
    """The group's commit."""
    offsets = shell.kafka.cluster("east:9092", "").offsets()
    return (await offsets.committed("g", [PLACE]))[PLACE]


@virtual
async def test_progress_is_moved_told_and_taken_back() -> None:
    shell = await with_progress()
    dry = await shell.braid(*RESET, "--to", "earliest", "--dry-run")
    assert dry.out.splitlines() == [
        "group/g progress of 1 leases would be moved (dry run: nothing was changed): 5 offsets again, 0 passed over",
        "  logs/live/1/0  5 → 0  (log 0 to 5)",
    ]
    assert (await committed(shell)).offset == 5
    unasked = await shell.braid(*RESET, "--to", "earliest")
    assert unasked.code == 2 and "--yes" in unasked.err
    moved = await shell.braid(*RESET, "--to", "earliest", "--reason", "the handler was wrong", "--yes")
    assert moved.code == 0 and moved.out.startswith("group/g progress of 1 leases moved: 5 offsets again")
    undo = "braid reset group g --offset logs/live/1/0=5"
    assert f"take it back: {undo}\n" in moved.err
    found = await committed(shell)
    assert (found.offset, decode(found.offset, found.metadata).fields.base) == (0, 0)
    assert decode(found.offset, found.metadata).fields.epoch > 0, "what an earlier holder commits shows as stale"
    told = (await shell.braid("events", "--for", "group/g", "-o", "json")).out
    assert '"ResetIntended"' in told and '"ProgressReset"' in told and "the handler was wrong" in told
    assert (await shell.braid(*undo.split()[1:], "--yes")).code == 0
    assert (await committed(shell)).offset == 5
    assert (await shell.braid(*RESET, "--to", "earliest", "--yes")).code == 0
    await consumed(shell, 5)  # all of them once more
    assert (await committed(shell)).offset == 5
    why = (await shell.braid("why", "lease", "logs/live/1/0", "--group", "g")).out
    assert "The group's progress is to be set from 5 to 0 by hand" in why


@virtual
async def test_times_and_offsets_beyond_the_log_are_brought_into_it() -> None:
    shell = await with_progress()
    shell.kafka.named("east").expire(PLACE, 2)
    for where, offset in (("earliest", 2), ("latest", 5), ("2020-01-01", 2)):
        assert (await shell.braid(*RESET, "--to", where, "--yes")).code == 0
        assert (await committed(shell)).offset == offset
    for asked, offset in ((0, 2), (3, 3), (99, 5)):
        assert (await shell.braid("reset", "group", "g", "--offset", f"logs/live/1/0={asked}", "--yes")).code == 0
        assert (await committed(shell)).offset == offset


@virtual
async def test_a_reset_under_leases_is_refused_and_names_the_holders() -> None:
    shell = await with_progress()
    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="g") as consumer:
        await shell.until(lambda: bool(consumer.leases()))
        refused = await shell.braid(*RESET, "--to", "earliest", "--yes")
        assert refused.code == 4 and "stop the members" in refused.err
        assert "1 leases are held, by app (1)" in refused.err
        dry = await shell.braid(*RESET, "--to", "earliest", "--dry-run")
        assert dry.code == 0 and "it would be refused now: 1 leases are held" in dry.err
        assert (await committed(shell)).offset == 5


@virtual
async def test_the_next_leader_finishes_an_intended_commit() -> None:
    shell = await with_progress(assigners=2)
    leader = next(name for name, each in shell.replicas.items() if name.startswith("assigner") and each.leading())
    asking = asyncio.ensure_future(shell.braid(*RESET, "--to", "earliest", "--yes"))
    shell.kafka_latency_seconds = 0.2  # the look takes four of these, the write comes with the fifth
    aggregates = shell.replicas[leader].aggregates
    await shell.until(lambda: aggregates.state(KIND, "g").channels["logs/live/1"].reset is not None)
    east = shell.kafka.named("east")
    assert east.groups.committed("g", [PLACE])[PLACE].offset == 5, "it is recorded, and not written yet"
    shell.kill(leader)
    assert (await asking).code == 0
    await asyncio.sleep(10.0)
    assert (await committed(shell)).offset == 0
    status = json.loads((await shell.braid("get", "group", "g", "-o", "json")).out)["status"]
    assert status["resetting_channels"] == []


async def overwritten_by_a_former_holder() -> tuple[str, int]:
    """A member that lost its lease unheard commits after a reset; returns its refusal, and what is committed."""
    shell = await with_progress()
    async with user(shell, "cut-off") as mesh:
        consumer = mesh.consumer(["logs"], group="g")
        await consumer.__aenter__()
        await shell.until(lambda: bool(consumer.leases()))
        lent = cluster_work(consumer).committer.generation
        shell.network.cut("cut-off", "assigner-0")
        await asyncio.sleep(10.0)
        assert (await shell.braid(*RESET, "--to", "earliest", "--yes")).code == 0
        assert (await committed(shell)).offset == 0
        stale = encode(EnvelopeFields(base=5))
        refused = ""
        try:
            offsets = shell.kafka.cluster("east:9092", "").offsets()
            await offsets.commit("g", {PLACE: Committed(stale.offset, stale.metadata)}, lent)
        except BraidError as error:
            refused = error.reason
        consumer._background.closed = True
    return refused, (await committed(shell)).offset


@virtual
async def test_an_unheard_former_holder_cannot_commit_over_the_reset() -> None:
    """A reset makes the cluster refuse its generation before it writes."""
    assert await overwritten_by_a_former_holder() == ("FENCED", 0)


def test_without_a_newer_generation_it_could(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the write waits for no generation, and none is made for it."""
    monkeypatch.setattr(generations, "_resetting", lambda state: set())
    monkeypatch.setattr(generations, "gated", lambda state: frozenset())

    @virtual
    async def scenario() -> None:
        assert await overwritten_by_a_former_holder() == ("", 5)

    scenario()
