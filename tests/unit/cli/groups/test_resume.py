"""A lane that a member stopped with is seen by people, who can let it go on."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from braid.client.consumer_settings import DeadLetterLimits, Retry
from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from services.assigner.servicer.member_session import MemberSession
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import produced, user

FEW = Retry(max_attempts=1, dead_letters=DeadLetterLimits(in_a_row=2))
WHY = "2 records in a row would be dead-lettered"


class Handler:
    """Fails on everything until it is mended."""

    def __init__(self) -> None:
        self.mended = False
        self.done: list[bytes | None] = []

    async def __call__(self, record: Record) -> None:
        if not self.mended:
            raise ValueError("bad deploy")
        self.done.append(record.value)


@contextlib.asynccontextmanager
async def stopped() -> AsyncIterator[tuple[Shell, Handler, Consumer]]:
    """A member that has stopped with its lane after two dead letters; three records are left."""
    shell = await Shell().start("east", assigners=2)
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await asyncio.sleep(2.0)
    handler = Handler()
    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="g", retry=FEW, concurrency=1) as consumer:
        running = asyncio.ensure_future(consumer.run(handler))
        await produced(shell, b"1", b"2", b"3", b"4", b"5")
        await shell.until(lambda: bool(consumer.stopped()))
        await asyncio.sleep(1.0)
        yield shell, handler, consumer
    await running


async def told(shell: Shell) -> list[dict[str, object]]:
    """The stopped lanes of the only member, as the command line tells them."""
    items = json.loads((await shell.braid("get", "members", "-o", "json")).out)["items"]
    assert len(items) == 1
    return [{name: each[name] for name in ("lane", "reason", "resume_asked")} for each in items[0]["stopped"]]


async def leader_dies(shell: Shell) -> None:
    """Another assigner leads; members say hello to it."""
    shell.kill(next(name for name, each in shell.replicas.items() if name.startswith("assigner") and each.leading()))
    await asyncio.sleep(10.0)


@virtual
async def test_a_stops_reason_is_shown_and_the_command_line_resumes_it() -> None:
    async with stopped() as (shell, handler, consumer):
        assert await told(shell) == [{"lane": "live", "reason": WHY, "resume_asked": False}]
        members = (await shell.braid("get", "members", "-o", "wide")).out
        assert " STOPPED " in members and f"live: {WHY}" in members
        described = (await shell.braid("describe", "group", "g")).out
        assert f"live at app: {WHY}" in described
        handler.mended = True
        resumed = await shell.braid("resume", "group", "g", "--lane", "live", "--member", "app")
        assert (resumed.code, resumed.out) == (0, "group/g lane live goes on\n")
        await shell.until(lambda: len(handler.done) == 3)
        assert await told(shell) == [] and not consumer.stopped()
        out = (await shell.braid("events", "--for", "group/g", "-o", "json")).out
        order = [out.index(f'"{each}"') for each in ("LaneStopped", "LaneResumeAsked", "LaneResumed")]
        assert order == sorted(order) and WHY in out


@virtual
async def test_who_resumes_in_vain_or_too_early_is_told() -> None:
    async with stopped() as (shell, _, consumer):
        wrong = await shell.braid("resume", "group", "g", "--lane", "bulk")
        assert wrong.code == 4 and "no member of group 'g' has stopped with lane 'bulk'" in wrong.err
        other = await shell.braid("resume", "group", "g", "--lane", "live", "--member", "web-1")
        assert other.code == 4 and "member 'web-1' of group 'g' has not stopped" in other.err
        assert (await shell.braid("resume", "group", "h", "--lane", "live")).code == 4
        assert (await shell.braid("resume", "group", "g", "--lane", "live")).code == 0  # and nothing was mended
        await shell.until(lambda: bool(consumer.stopped()))
        await asyncio.sleep(1.0)
        assert await told(shell) == [{"lane": "live", "reason": WHY, "resume_asked": False}]


@virtual
async def test_a_new_leader_learns_of_a_resume_by_the_application() -> None:
    async with stopped() as (shell, handler, consumer):
        await leader_dies(shell)
        assert await told(shell) == [{"lane": "live", "reason": WHY, "resume_asked": False}]
        handler.mended = True
        consumer.resume("live")
        await asyncio.sleep(1.0)
        assert await told(shell) == []
    await asyncio.sleep(1.0)
    assert "stopped" not in (await shell.braid("get", "members")).out


def test_a_request_made_during_an_absence_follows_the_next_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    @virtual
    async def scenario() -> None:
        async with stopped() as (shell, handler, consumer):
            with monkeypatch.context() as lost:
                lost.setattr(MemberSession, "resume", lambda self, lane: None)  # the push is lost
                resumed = await shell.braid("resume", "group", "g", "--lane", "live")
            assert resumed.out == "group/g lane live asked to go on\n" and "not yet: live at app" in resumed.err
            assert await told(shell) == [{"lane": "live", "reason": WHY, "resume_asked": True}]
            handler.mended = True
            await leader_dies(shell)
            await shell.until(lambda: not consumer.stopped(), 60.0)
            await shell.until(lambda: len(handler.done) == 3, 60.0)

    scenario()
