"""`grant`, `revoke`, `can-i`, `get grants` and manifests of grants, in a mesh that refuses what is not granted."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from braid.api.assigner.v1.assigner_service_pb2 import GetGroupRequest, UpdateGroupRequest
from braid.api.assigner.v1.group_pb2 import Group
from braid.cli.core.terminal import Terminal
from braid.client.consumer_settings import Retry
from braid.client.records.record import Record
from braid.kernel.access.grants import ServicePrincipals
from braid.kernel.errors import AccessDenied
from braid.kernel.ports import TopicPartition
from braid.runtime.access.settings import AccessMode, AccessSettings
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import user

ANN = "spiffe://braid.local/user/ann"
BOB = "spiffe://braid.local/user/bob"
ORDERS = "spiffe://braid.local/app/orders"
ENFORCED = AccessSettings(AccessMode.ENFORCED, (ANN,), services=ServicePrincipals("braid.local"))


async def mesh(access: AccessSettings = ENFORCED) -> Shell:
    """A mesh whose first admin types, with a cluster and a stream."""
    shell = Shell()
    shell.access = access
    names = {name: f"spiffe://braid.local/service/{name}" for name in ("registry-0", "assigner-0")}
    shell.principals |= {"cli": ANN, **names}
    await shell.start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await asyncio.sleep(2.0)
    return shell


@virtual
async def test_a_grant_allows_and_its_revocation_refuses() -> None:
    shell = await mesh()
    shell.principals["cli"] = BOB
    refused = await shell.braid("get", "streams")
    assert refused.code == 4
    assert f"{BOB} may not view every stream: it is not viewer on stream/*" in refused.err
    assert f"try: an admin can allow it: braid grant viewer --to {BOB} --on 'stream/*'" in refused.err
    shell.principals["cli"] = ANN
    given = await shell.braid("grant", "viewer", "--to", BOB, "--on", "stream/*", "--reason", "looks")
    assert given == (0, f"{BOB} is viewer on stream/*\n", "")
    shell.principals["cli"] = BOB
    assert (await shell.braid("get", "streams")).code == 0
    shell.principals["cli"] = ANN
    assert (await shell.braid("revoke", "viewer", "--from", BOB, "--on", "stream/*")).out == (
        f"{BOB} is no longer viewer on stream/*\n"
    )
    again = await shell.braid("revoke", "viewer", "--from", BOB, "--on", "stream/*")
    assert again.code == 4 and "has no grant as viewer on stream/*" in again.err
    shell.principals["cli"] = BOB
    assert (await shell.braid("get", "streams")).code == 4


@virtual
async def test_can_i_says_what_allows_or_which_grant_is_missing() -> None:
    shell = await mesh()
    no = await shell.braid("can-i", "move", "stream", "logs", "--as", BOB)
    assert no.code == 1
    assert no.out.splitlines() == [
        f"no: {BOB} may not operate stream/logs: it is not operator on stream/logs",
        f"  an admin can allow it: braid grant operator --to {BOB} --on stream/logs",
    ]
    await shell.braid("grant", "operator", "--to", BOB, "--for", "8h", "--reason", "on call")
    yes = await shell.braid("can-i", "move", "stream", "logs", "--as", BOB)
    assert yes.code == 0
    first, second = yes.out.splitlines()
    assert first == f"yes: {BOB} is operator"
    assert second.startswith(f"  granted by {ANN}, until ") and second.endswith(": on call")
    assert (await shell.braid("can-i", "grant", "mesh")).out == f"yes: {ANN} is an admin by the services' settings\n"
    shell.principals["cli"] = BOB
    assert (await shell.braid("can-i", "create", "stream", "pay")).code == 1, "everybody may ask about itself"
    other = await shell.braid("can-i", "create", "stream", "pay", "--as", ORDERS, "-o", "json")
    assert json.loads(other.out)["allowed"] is False, "an operator of the mesh may view it"


@virtual
async def test_can_i_says_who_decides_on_reading_without_a_group() -> None:
    """A producer may view its stream, and so `braid consume` without a group reads it wherever Kafka lets it."""
    shell = await mesh()
    await shell.braid("grant", "producer", "--to", ORDERS, "--on", "stream/logs")
    no = await shell.braid("can-i", "consume", "stream", "logs", "--as", ORDERS)
    assert no.code == 1 and "who gets its records then is up to Kafka's own ACLs" in no.out
    shell.principals["cli"] = ORDERS
    assert (await shell.braid("consume", "logs", "--timeout", "2")).code == 0
    joined = await shell.braid("consume", "logs", "--group", "g", "--timeout", "2")
    assert joined.code == 4 and "may not consume" in joined.err
    shell.principals["cli"] = ANN
    await shell.braid("grant", "consumer", "--to", ORDERS, "--on", "stream/logs")
    yes = await shell.braid("can-i", "consume", "stream", "logs", "--as", ORDERS)
    assert yes.code == 0 and "ACL" not in yes.out


@virtual
async def test_a_refused_deletion_names_the_right_that_it_needs() -> None:
    shell = await mesh()
    shell.principals["cli"] = BOB
    for role in ("", "viewer"):
        if role:
            shell.principals["cli"] = ANN
            await shell.braid("grant", role, "--to", BOB, "--on", "stream/logs")
            shell.principals["cli"] = BOB
        refused = await shell.braid("delete", "stream", "logs", "--yes")
        assert refused.code == 4 and f"{BOB} may not change stream/logs" in refused.err
        assert f"try: an admin can allow it: braid grant stream-owner --to {BOB} --on stream/logs" in refused.err


@virtual
async def test_an_owner_of_one_stream_sees_what_it_deletes() -> None:
    shell = await mesh()
    assert (await shell.braid("consume", "logs", "--group", "g", "--timeout", "2")).code == 0
    await shell.braid("grant", "stream-owner", "--to", BOB, "--on", "stream/l*")
    shell.principals["cli"] = BOB
    mistyped = await shell.braid("delete", "stream", "lgos", "--yes")
    assert mistyped.code == 4 and "lgos" in mistyped.err and "may not" not in mistyped.err
    assert "may not" not in (await shell.braid("move", "stream", "logs", "--to", "wset")).err
    deleted = await shell.braid("delete", "stream", "logs", "--yes")
    assert deleted.code == 0 and "work of group g (0 members) ends" in deleted.err


@virtual
async def test_a_temporary_right_ends() -> None:
    shell = await mesh()
    await shell.braid("grant", "viewer", "--to", BOB, "--for", "2m")
    shell.principals["cli"] = BOB
    assert (await shell.braid("get", "streams")).code == 0
    await asyncio.sleep(120)
    assert "its grant as viewer has ended" in (await shell.braid("get", "streams")).err
    shell.principals["cli"] = ANN
    assert "ENDED" in (await shell.braid("get", "grants", BOB)).out


@virtual
async def test_get_grants_lists_those_of_the_settings_too() -> None:
    shell = await mesh()
    await shell.braid("grant", "stream-owner", "--to", BOB, "--on", "stream/pay-*")
    rows = [line.split() for line in (await shell.braid("get", "grants")).out.splitlines()]
    assert rows[0][:4] == ["NAME", "ROLE", "ON", "ENDS"]
    assert [row[:4] for row in rows[1:]] == [
        [ANN, "admin", "mesh", "never"],
        [BOB, "stream-owner", "stream/pay-*", "never"],
    ]
    shell.principals["cli"] = BOB
    assert (await shell.braid("get", "grants")).code == 4
    assert BOB in (await shell.braid("get", "grants", BOB)).out


def test_manifests_of_grants_are_applied_compared_and_exported(tmp_path: Path) -> None:
    manifest = f"""
apiVersion: braid/v1
kind: Grant
metadata: {{name: orders}}
spec: {{principal: "{ORDERS}", role: stream-owner, resource: stream/logs, reason: theirs}}
"""

    @virtual
    async def scenario() -> None:
        shell = await mesh()
        file, path = tmp_path / "grants.yaml", str(tmp_path / "grants.yaml")
        file.write_text(manifest)
        assert (await shell.braid("apply", "-f", path, "--dry-run")).out == "grant/orders created (dry run)\n"
        assert (await shell.braid("diff", "-f", path)).code == 1
        assert (await shell.braid("apply", "-f", path)).out == "grant/orders created\n"
        assert (await shell.braid("apply", "-f", path)).out == "grant/orders unchanged\n"
        assert await shell.braid("diff", "-f", path) == (0, "", "")
        file.write_text(manifest.replace("theirs", "still theirs"))
        assert "+reason: still theirs" in (await shell.braid("diff", "-f", path)).out
        assert (await shell.braid("apply", "-f", path)).out == "grant/orders changed\n"
        exported = await shell.braid("get", "grants", ORDERS, "-o", "yaml")
        file.write_text(exported.out)
        assert (await shell.braid("apply", "-f", path)).out.endswith(" unchanged\n")
        file.write_text(manifest.replace("stream/logs", "group/g"))
        wrong = await shell.braid("apply", "-f", path)
        assert wrong.code == 2 and "cannot be granted on group/g" in wrong.err

    scenario()


@virtual
async def test_what_is_typed_wrong_is_refused_before_the_mesh_is_asked() -> None:
    shell = Shell()
    for arguments, said in (
        (("grant", "boss", "--to", BOB), "'boss' is no role that can be granted"),
        (("grant", "viewer", "--to", "bob"), "'bob' is no principal"),
        (("grant", "admin", "--to", BOB, "--on", "stream/logs"), "cannot be granted on stream/logs"),
        (("grant", "viewer", "--to", BOB, "--for", "8h", "--until", "18:00"), "--until"),
        (("grant", "viewer", "--to", BOB, "--for", "soon"), "'soon' is not a time that something lasts"),
        (("grant", "viewer", "--to", BOB, "--until", "8h"), "is a time that something lasts"),
        (("revoke", "viewer", "--from", BOB, "--on", "topic/logs"), "'topic/logs' is no resource"),
        (("can-i", "move", "stream", "logs", "--as", "bob"), "'bob' is no principal"),
    ):
        result = await shell.braid(*arguments)
        assert result.code == 2 and said in result.err, arguments


@virtual
async def test_events_say_who_gave_and_took_what_and_why() -> None:
    shell = await mesh()
    await shell.braid("grant", "viewer", "--to", BOB, "--reason", "on call")
    await shell.braid("revoke", "viewer", "--from", BOB, "--reason", "off call")
    told = json.loads((await shell.braid("events", "--for", "grants/mesh", "-o", "json")).out)["items"]
    assert [each["type"] for each in told] == ["AccessGranted", "AccessRevoked"]
    assert {each["metadata"]["actor"] for each in told} == {ANN}
    assert told[0]["data"]["spec"]["reason"] == "on call" and told[1]["data"]["reason"] == "off call"
    shell.principals["cli"] = ORDERS
    assert (await shell.braid("events", "--for", "grants/mesh")).code == 4


@virtual
async def test_while_access_is_open_can_i_says_so() -> None:
    shell = await mesh(AccessSettings(AccessMode.OPEN, (ANN,)))
    asked = await shell.braid("can-i", "produce", "stream", "logs", "--as", ORDERS)
    assert asked.code == 1
    assert "access is open" in asked.err
    del shell.principals["cli"]
    nobody = await shell.braid("grant", "viewer", "--to", BOB)
    assert nobody.code == 4 and "GrantAccess takes a caller that has proved who it is" in nobody.err


@virtual
async def test_an_application_needs_no_more_than_its_own_roles() -> None:
    """Sending takes `producer`; handling, and writing dead letters, `consumer` on the stream and the group."""
    shell = await mesh()
    await shell.braid("grant", "producer", "--to", ORDERS, "--on", "stream/logs")
    await shell.braid("grant", "consumer", "--to", BOB, "--on", "stream/logs")
    await shell.braid("grant", "consumer", "--to", BOB, "--on", "group/g")
    shell.principals |= {"sender": ORDERS, "member": BOB}
    handled: list[bytes] = []

    async def handle(record: Record) -> None:
        handled.append(record.value or b"")
        if record.value == b"bad":
            raise ValueError("bad")

    async with user(shell, "sender") as mesh_of_sender, mesh_of_sender.producer("logs") as producer:
        for value in (b"good", b"bad", b"last"):
            await producer.send(value, key=b"k")
        with pytest.raises(AccessDenied, match="may not consume group/g"):
            async with mesh_of_sender.consumer(["logs"], group="g") as consumer:
                await consumer.run(handle)
    async with user(shell, "member") as mesh_of_member:
        retry = Retry(max_attempts=1)
        async with mesh_of_member.consumer(["logs"], group="g", start="earliest", retry=retry) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            await shell.until(lambda: len(handled) == 3 and dead_letters(shell) == 1)
            await asyncio.sleep(20.0)  # beats, reports of health, looks at open streams
            assert not running.done()
        await running
        await group_also_reads_pay(shell)
        with pytest.raises(AccessDenied, match="may not consume stream/pay"):
            async with mesh_of_member.consumer(["logs"], group="g", start="earliest") as consumer:
                await consumer.run(handle)
        with pytest.raises(AccessDenied, match="may not produce stream/logs"):
            async with mesh_of_member.producer("logs") as refused:
                await refused.send(b"two")


async def group_also_reads_pay(shell: Shell) -> None:
    """An operator gives the group a stream that its members have no right to."""
    assert (await shell.braid("create", "stream", "pay", "--lane", "live=1")).code == 0
    async with shell.session(Terminal(io.StringIO(), io.StringIO(), {})) as session:
        group = await session.read("assigner", "GetGroup", GetGroupRequest(name="g"), Group)
        group.spec.streams.append("pay")
        request = UpdateGroupRequest(name="g", spec=group.spec)
        await session.change("assigner", "UpdateGroup", request, Group, "updating")


def dead_letters(shell: Shell) -> int:
    """How many records the dlq lane has."""
    return shell.kafka.named("east").log(TopicPartition("braid.logs.dlq.1", 0)).end
