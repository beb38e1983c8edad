"""`braid events` over records of calls: by caller, method, outcome and time; listed, followed, and sent to a stream."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from braid.runtime.audit.settings import AuditSettings
from tests.unit.cli.access.test_verbs import ANN, BOB, ENFORCED
from tests.unit.cli.mesh import Shell, virtual


async def mesh() -> Shell:
    """A mesh that records calls, in which ann has made a stream and bob was refused one."""
    shell = Shell()
    shell.access, shell.audit = ENFORCED, AuditSettings()
    names = {name: f"spiffe://braid.local/service/{name}" for name in ("registry-0", "assigner-0")}
    shell.principals |= {"cli": ANN, **names}
    await shell.start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await refused(shell)
    return shell


async def refused(shell: Shell) -> None:
    shell.principals["cli"] = BOB
    assert (await shell.braid("cordon", "cluster", "east")).code == 4
    shell.principals["cli"] = ANN
    await asyncio.sleep(2.0)


def documents(text: str) -> list[dict[str, object]]:
    return list(json.loads(text)["items"])


@virtual
async def test_a_caller_s_calls_are_told_beside_what_came_of_them() -> None:
    shell = await mesh()
    found = documents((await shell.braid("events", "--actor", ANN, "-o", "json")).out)
    told = [str(each.get("rpc") or each.get("type")) for each in found]
    assert {"CreateCluster", "CreateStream", "ClusterRegistered", "StreamCreated"} <= set(told)
    (call,) = [each for each in found if each.get("rpc") == "CreateStream"]
    wanted = {"kind": "Call", "principal": ANN, "authenticated": True, "resource": "stream/logs", "outcome": "ok"}
    assert wanted.items() <= call.items()
    assert call["command"] == "braid create stream logs --lane live=1" and call["request_id"]


@virtual
async def test_refusals_are_found_by_themselves_with_their_reason() -> None:
    shell = await mesh()
    result = await shell.braid("events", "--refused", "-o", "wide")
    assert result.code == 0
    (row,) = [line for line in result.out.splitlines()[1:] if BOB in line]
    assert "CordonCluster" in row and "refused (denied) cluster/east from cli" in row
    assert "braid cordon cluster east" in row
    table = await shell.braid("events", "--refused", terminal=True)
    assert all(len(line) <= 80 for line in table.out.splitlines())


@virtual
async def test_calls_are_found_by_method_resource_and_time() -> None:
    shell = await mesh()

    async def found(*options: str) -> list[object]:
        return [each["rpc"] for each in documents((await shell.braid("events", *options, "-o", "json")).out)]

    assert await found("--rpc", "CreateStream") == ["CreateStream"]
    assert set(await found("--calls", "--for", "stream/logs")) >= {"CreateStream"}
    assert "CreateCluster" not in await found("--calls", "--for", "stream/logs")
    await asyncio.sleep(120.0)
    since = datetime.fromtimestamp(shell.me.host.clock.now_ms() / 1000, UTC).isoformat()
    assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
    await asyncio.sleep(2.0)
    assert await found("--calls", "--since", since, "--actor", ANN) == ["DeleteStream"]
    assert await shell.braid("events", "--rpc", "NoSuchMethod") == (0, "", "braid: no events match\n")


@virtual
async def test_records_are_found_while_the_registry_is_away() -> None:
    shell = await mesh()
    shell.kill("registry-0")
    found = documents((await shell.braid("events", "--refused", "-o", "json")).out)
    assert [each["principal"] for each in found] == [BOB]


@virtual
async def test_a_watch_shows_refusals_as_they_are_written() -> None:
    shell = await mesh()
    watching = asyncio.ensure_future(shell.braid("events", "--refused", "-w", "-o", "json", seconds=6.0))
    await asyncio.sleep(1.0)
    await refused(shell)
    lines = [json.loads(line) for line in (await watching).out.splitlines()]
    assert [(line["rpc"], line["count"]) for line in lines] == [("CordonCluster", 1), ("CordonCluster", 2)]
    assert len({line["id"] for line in lines}) == len(lines)


@virtual
async def test_records_go_to_a_stream_as_lines_of_json() -> None:
    shell = await mesh()
    assert (await shell.braid("create", "stream", "audit", "--lane", "live=1")).code == 0
    await asyncio.sleep(5.0)
    sending = asyncio.ensure_future(shell.braid("events", "--calls", "-w", "--to-stream", "audit", seconds=12.0))
    await asyncio.sleep(4.0)
    await refused(shell)
    result = await sending
    assert result.code == 0, result
    read = await shell.braid("consume", "audit", "--from", "earliest", "-o", "json", seconds=10.0)
    values = [json.loads(json.loads(line)["value"]) for line in read.out.splitlines()]
    calls = {(each["principal"], each["rpc"]) for each in values}
    assert {(ANN, "CreateStream"), (BOB, "CordonCluster")} <= calls


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--to-stream", "audit"), "add -w"),
        (("--since", "yesterdayish"), "--since"),
        (("-w", "--at", "10m"), "leave out -w or --at"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: tuple[str, ...], text: str) -> None:
    @virtual
    async def scenario() -> None:
        result = await Shell().braid("events", *options)
        assert result.code == 2 and text in result.err

    scenario()
