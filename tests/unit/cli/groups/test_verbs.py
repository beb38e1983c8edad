"""`drain`, `pin`, `ban`, `freeze`, `set`: typed, asked of a real assigner, and shown."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from braid.client.mesh import Mesh, Ports
from braid.rpc.memory.transport import MemoryTransport
from tests.support.virtual_time import VirtualProcess, running_loop
from tests.unit.cli.mesh import Shell, virtual

LEASE = "logs/live/1/0"


@contextlib.asynccontextmanager
async def with_members(*names: str) -> AsyncIterator[Shell]:
    """A stream on east that members of a group consume."""
    shell = await Shell().start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=4", "--lane", "bulk=2")).code == 0
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(member(shell, name))
        await asyncio.sleep(20.0)
        yield shell


@contextlib.asynccontextmanager
async def member(shell: Shell, name: str) -> AsyncIterator[None]:
    """A member of the group, in a process of its own."""
    process = VirtualProcess(running_loop(), name, 1)
    transport = MemoryTransport(shell.network, name)
    ports = Ports(process.host, shell.kafka, transport)
    addresses = [f"{instance}:1" for instance in shell.processes]
    async with (
        Mesh(ports.host, ports.kafka, transport, addresses, name, "a") as mesh,
        mesh.consumer(["logs"], group="indexer"),
    ):
        yield


async def held(shell: Shell, member: str) -> list[str]:
    """The leases of a member."""
    document = json.loads((await shell.braid("get", "leases", "-o", "json")).out)
    return [each["name"] for each in document["items"] if each["member_client_id"] == member]


@virtual
async def test_a_drain_is_asked_for_shown_and_taken_back() -> None:
    async with with_members("web-1", "web-2") as shell:
        told = await shell.braid("drain", "member", "web-1", "--reason", "host update")
        assert told.out == (
            "member/web-1 draining, 3 leases to go; watch it: braid get members --group indexer -w\n"
        )  # fmt: skip
        await asyncio.sleep(5.0)
        assert await held(shell, "web-1") == []
        members = (await shell.braid("get", "members")).out
        assert " DRAINED " in members and " LIVE " in members
        described = (await shell.braid("describe", "group", "indexer", terminal=True)).out
        assert "\nRules:\n  drain     web-1: drained, for 5s (host update)\n" in described
        assert max(map(len, described.splitlines())) <= 80
        assert (await shell.braid("drain", "member", "web-1", "--reason", "host update")).out.startswith(
            "member/web-1 drained: it holds nothing"
        )
        assert (await shell.braid("undrain", "member", "web-1")).out == "member/web-1 may hold leases again\n"
        assert "Rules: none" in (await shell.braid("describe", "group", "indexer")).out


@virtual
async def test_a_pin_moves_a_lease_and_stands_in_the_wide_table() -> None:
    async with with_members("web-1", "web-2") as shell:
        target = "web-2" if LEASE in await held(shell, "web-1") else "web-1"
        told = await shell.braid("pin", "lease", LEASE, "--to", target, "--strict")
        assert told.out == f"lease/{LEASE} pinned to {target}, and to nobody else\n"
        await asyncio.sleep(5.0)
        assert LEASE in await held(shell, target)
        wide = (await shell.braid("get", "leases", "-o", "wide")).out
        assert f"pinned to {target} only" in wide and "RULE" in wide.splitlines()[0]
        why = " ".join((await shell.braid("why", "lease", LEASE)).out.split())
        assert f"Pinned to {target}, and to nobody else (decided by" in why
        assert f"it is pinned to {target}" in why
        assert f"  pin       {LEASE} to {target} only" in (await shell.braid("describe", "group", "indexer")).out
        assert (await shell.braid("unpin", "lease", LEASE)).out == f"lease/{LEASE} unpinned\n"


@virtual
async def test_a_ban_a_freeze_a_capacity_and_what_groups_keep_to() -> None:
    async with with_members("web-1", "web-2") as shell:
        assert (await shell.braid("freeze", "group", "indexer", "--reason", "release")).out == (
            "group/indexer frozen: no held lease moves\n"
        )
        assert " FROZEN " in (await shell.braid("get", "groups")).out
        before = await held(shell, "web-1")
        told = await shell.braid("ban", "member", "web-1", "--from", "logs/bulk")
        assert told.out == "member/web-1 banned from logs/bulk\n"
        await asyncio.sleep(20.0)
        assert await held(shell, "web-1") == before
        assert (await shell.braid("unfreeze", "group", "indexer")).out == "group/indexer moves again\n"
        await asyncio.sleep(5.0)
        assert not [lease for lease in await held(shell, "web-1") if lease.startswith("logs/bulk/")]
        await shell.braid("set", "capacity", "web-1", "3.5")
        assert (await shell.braid("set", "zones", "indexer", "prefer")).out.startswith("group/indexer zones: prefer")
        described = (await shell.braid("describe", "group", "indexer")).out
        for line in ("  ban       web-1 from logs/bulk", "  capacity  web-1: 3.5", "  zones     prefer"):
            assert f"\n{line}\n" in described
        assert (await shell.braid("unban", "member", "web-1", "--from", "logs/bulk")).out == (
            "member/web-1 may hold logs/bulk\n"
        )
        told = await shell.braid("set", "capacity", "web-1", "--unset")
        assert told.out == "member/web-1 has the capacity that it declares\n"


@virtual
async def test_a_rule_for_somebody_who_will_come_says_that_it_waits() -> None:
    async with with_members("web-1", "web-2") as shell:
        told = await shell.braid("pin", "lease", LEASE, "--to", "web-9", "--absent")
        assert told.out.splitlines()[1:] == ["  note: rules wait for members that are away: web-9"]
        assert len(await held(shell, "web-1")) + len(await held(shell, "web-2")) == 6


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("drain member wbe-1", 4, "did you mean web-1?"),
        ("drain group indexer", 2, "it takes member"),
        ("drain member web-1 --group indxer", 4, "did you mean indexer?"),
        ("pin lease logs/live/1 --to web-1", 2, "'logs/live/1' is not a lease"),
        (f"pin lease {LEASE} --to wbe-1", 4, "did you mean web-1?"),
        ("pin lease logs/live/9/0 --to web-1", 4, "logs/live/9"),
        (f"pin lease {LEASE}", 2, "--to"),
        ("ban member web-1", 2, "either --from or --from-cluster is needed"),
        ("ban member web-1 --from logs/blk", 4, "consumes nothing of logs/blk"),
        ("ban member web-1 --from-cluster north", 4, "use east"),
        ("freeze group indxer", 4, "did you mean indexer?"),
        ("freeze member web-1", 2, "it takes group"),
        ("set capacity web-1", 2, "either a number or --unset"),
        ("set capacity web-1 -- -3", 2, "a capacity of -3.0"),
        ("set zones indexer near", 2, "use any or prefer or strict"),
        ("set fencing indexer epoch", 2, "use generation or none"),
        ("set fencing indxer none", 4, "did you mean indexer?"),
    ],
)
def test_bad_input_gets_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        async with with_members("web-1", "web-2") as shell:
            result = await shell.braid(*line.split())
            assert (result.code, result.out) == (code, "")
            assert told in result.err
            assert "Traceback" not in result.err

    scenario()


@virtual
async def test_fencing_ends_once_the_members_are_stopped() -> None:
    async with with_members() as shell:
        east = shell.kafka.named("east")
        async with member(shell, "web-1"):
            await asyncio.sleep(20.0)
            refused = await shell.braid("set", "fencing", "indexer", "none")
            assert (refused.code, refused.out) == (4, "")
            assert "stop them first" in refused.err
        assert east.groups.state("indexer") == "Stable"
        told = await shell.braid("set", "fencing", "indexer", "none")
        assert (told.code, told.out) == (0, "group/indexer fencing: none\n")
        assert east.groups.state("indexer") == "Empty"
        assert (await shell.braid("set", "fencing", "indexer", "generation")).code == 0
        async with member(shell, "web-2"):
            await asyncio.sleep(20.0)
            assert len(await held(shell, "web-2")) == 6
        east.kill()
        told = await shell.braid("set", "fencing", "indexer", "none")
        assert (told.code, told.out) == (0, "group/indexer fencing: none\n")
        assert "its membership has yet to end on east; nothing is granted there until then" in told.err


@virtual
async def test_what_would_strand_work_is_refused_by_name() -> None:
    async with with_members("web-1") as shell:
        refused = await shell.braid("drain", "member", "web-1")
        assert refused.code == 4
        assert "then none of the 1 members could hold logs/bulk/1/0" in refused.err
        assert "start another member first" in refused.err
