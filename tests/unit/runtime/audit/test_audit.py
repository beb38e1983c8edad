"""A replica's records: who, from where, what; in the store whatever happens to it, bounded, and without secrets."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

import pytest

from braid.api.mesh.v1.event_pb2 import (
    EventFilter,
    EventRecord,
    ListEventsRequest,
    ListEventsResponse,
    WatchEventsRequest,
)
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1.cluster_pb2 import ClusterSpec
from braid.archive.memory import MemoryArchive
from braid.kernel.access.roles import MESH, Resource, ResourceKind, Role
from braid.kernel.audit.calls import Outcome
from braid.kernel.audit.forms import Reads
from braid.kernel.errors import AccessDenied, Invalid
from braid.kernel.limits.access.audit import (
    AUDIT_BUFFER_RECORDS_MAX,
    AUDIT_SESSION_IDLE_SECONDS,
    AUDIT_SINGLE_PER_SECOND,
)
from braid.kernel.ports import Caller, CallOptions, HistoryId
from braid.rpc.methods import method_path
from braid.runtime.access.settings import AccessSettings
from braid.runtime.audit.settings import AuditSettings
from braid.stores.memory import Fate
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.access.mesh import ADMIN, ENFORCED, Client, Mesh
from tests.unit.runtime.access.test_control import watch_routes
from tests.unit.runtime.audit.records import listed, records

MALLORY = "spiffe://braid.local/app/mallory"
AUDIT = AuditSettings()
OPTIONS = CallOptions(5.0)
WRITTEN_SECONDS = 1.0  # what is recorded is in the store by then
SECRET = "hunter2-planted"
CHANGES_OF_REGISTRY = HistoryId("audit", "changes", "registry.registry-0")


def run(work: Coroutine[object, object, None]) -> None:
    run_virtual(work)


async def delete(client: Client, name: str = "logs", options: CallOptions = OPTIONS) -> None:
    path = method_path("registry", "DeleteStream")
    await client.channel.unary(path, registry.DeleteStreamRequest(name=name), registry.DeleteStreamRequest, options)


async def refused_delete(client: Client, name: str = "logs") -> None:
    with pytest.raises(AccessDenied):
        await delete(client, name)


def test_a_change_is_recorded_with_who_where_what_and_command() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        await delete(mesh.client("registry", ADMIN, "10.0.0.7"), options=replace(OPTIONS, request_id="r-1"))
        await asyncio.sleep(WRITTEN_SECONDS)
        ((call, count),) = (await records(mesh)).of("DeleteStream")
        assert count == 1
        told = (call.principal, call.authenticated, call.address, call.resource, call.request_id, call.outcome)
        assert told == (ADMIN, True, "10.0.0.7", "stream/logs", "r-1", Outcome.OK)
        assert call.command == "braid delete stream logs"

    run(scenario())


def test_a_refusal_is_recorded_with_reason_and_repeats_counted() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        client = mesh.client("registry", MALLORY)
        for _ in range(7):
            await refused_delete(client)
        await asyncio.sleep(2.0)
        ((call, count),) = (await records(mesh)).of("DeleteStream")
        assert (call.outcome, call.reason, call.resource, count) == (Outcome.REFUSED, "denied", "stream/logs", 7)

    run(scenario())


def test_a_stream_losing_its_right_is_recorded_opened_and_ended() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        logs = Resource(ResourceKind.STREAM, "logs")
        await mesh.grant(MALLORY, Role.PRODUCER, logs)
        call = await watch_routes(mesh.client("registry", MALLORY))
        await mesh.revoke(MALLORY, Role.PRODUCER, logs)
        with pytest.raises(AccessDenied):
            await call.receive()
        await asyncio.sleep(WRITTEN_SECONDS)
        found = [(each.outcome, each.reason) for each, _ in (await records(mesh)).of("WatchRoutes")]
        assert sorted(found, key=str) == [(Outcome.OPENED, ""), (Outcome.REFUSED, "ended")]

    run(scenario())


def test_records_are_written_within_a_second_by_followers_too() -> None:
    """A replica that never led writes its own; killed without a word it loses what is younger than a second."""

    async def scenario() -> None:
        mesh = await Mesh("lagmon", audit=AuditSettings(Reads.ALL)).start()
        await refused_delete(mesh.client("registry", MALLORY))
        await asyncio.sleep(WRITTEN_SECONDS)
        mesh.processes["registry"].kill()
        assert len((await records(mesh, "lagmon")).of("DeleteStream")) == 1

    run(scenario())


def test_any_service_lists_the_records_of_all() -> None:
    async def scenario() -> None:
        mesh = await Mesh("dlq", audit=AUDIT).start()
        await refused_delete(mesh.client("registry", MALLORY))
        await asyncio.sleep(WRITTEN_SECONDS)
        assert (await records(mesh, "dlq")).calls == (await records(mesh, "registry")).calls != []

    run(scenario())


def test_calls_go_on_without_the_store_and_their_records_follow() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        client = mesh.client("registry", MALLORY)
        mesh.stores["registry"].disconnect()
        await refused_delete(client)
        await asyncio.sleep(20.0)
        mesh.stores["registry"].reconnect()
        await asyncio.sleep(5.0)
        ((_, count),) = (await records(mesh)).of("DeleteStream")
        assert count == 1

    run(scenario())


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.ANSWER_LOST])
def test_an_append_of_unknown_outcome_makes_no_record_twice(fate: Fate) -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        client, store = mesh.client("registry", ADMIN), mesh.stores["registry"]
        await delete(client, "before")
        await asyncio.sleep(WRITTEN_SECONDS)
        fates = iter([fate])
        store.fate = lambda operation: next(fates, Fate.ANSWERED) if operation == "append" else Fate.ANSWERED
        for number in range(3):
            await delete(client, f"s-{number}")
        await asyncio.sleep(8.0)
        names = [call.resource for call, _ in (await records(mesh)).of("DeleteStream")]
        assert sorted(names) == ["stream/before", "stream/s-0", "stream/s-1", "stream/s-2"]
        assert len(await listed(mesh, "registry", "audit/changes")) == 4
        assert next(fates, None) is None, "nothing was lost on the way"

    run(scenario())


def test_records_without_room_are_counted_and_that_is_recorded() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AuditSettings(records=20_000)).start()
        recorder = mesh.replicas["registry"].audit._recorder
        assert recorder is not None
        mesh.stores["registry"].disconnect()
        request = registry.DeleteStreamRequest(name="logs")
        extra = 500
        for second in range((AUDIT_BUFFER_RECORDS_MAX + extra) // AUDIT_SINGLE_PER_SECOND + 1):
            for _ in range(AUDIT_SINGLE_PER_SECOND):
                recorder.done("DeleteStream", request, Caller(ADMIN, "default", str(second), "x", authenticated=True))
            await asyncio.sleep(1.0)
        mesh.stores["registry"].reconnect()
        await asyncio.sleep(10.0)
        found = await records(mesh)
        assert sum(count for _, count in found.of("DeleteStream")) + sum(each.count for each in found.lost) == (
            ((AUDIT_BUFFER_RECORDS_MAX + extra) // AUDIT_SINGLE_PER_SECOND + 1) * AUDIT_SINGLE_PER_SECOND
        )
        assert sum(each.count for each in found.lost) >= extra

    run(scenario())


def test_a_flood_of_refusals_stays_small_and_spares_the_others() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AuditSettings(records=100)).start()
        await refused_delete(mesh.client("registry", "spiffe://braid.local/user/bob"), "payments")
        mallory = mesh.client("registry", MALLORY)
        for number in range(1_000):
            await refused_delete(mallory, f"s-{number}")
            if number % 10 == 0:
                await asyncio.sleep(10.0)
        await asyncio.sleep(2.0)
        raw = await listed(mesh, "registry", "audit/counts")
        assert len(raw) <= 100 * 1.2 + 55
        found = await records(mesh)
        bobs = [call for call, _ in found.calls if call.principal.endswith("bob")]
        assert [call.resource for call in bobs] == ["stream/payments"]

    run(scenario())


def test_old_changes_are_cut_off_and_the_newest_kept() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AuditSettings(records=100)).start()
        client = mesh.client("registry", ADMIN)
        for number in range(300):
            await delete(client, f"s-{number}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(WRITTEN_SECONDS)
        names = [call.resource for call, _ in (await records(mesh)).of("DeleteStream")]
        assert 100 <= len(names) <= 121 and names[-1] == "stream/s-299"

    run(scenario())


def test_old_changes_go_to_the_archive_and_are_still_listed() -> None:
    async def scenario() -> None:
        mesh = Mesh(audit=AuditSettings(records=100), archive=MemoryArchive())
        await mesh.start()
        client = mesh.client("registry", ADMIN)
        for number in range(300):
            await delete(client, f"s-{number}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(WRITTEN_SECONDS)
        names = [call.resource for call, _ in (await records(mesh)).of("DeleteStream")]
        assert names == [f"stream/s-{number}" for number in range(300)]
        assert len((await mesh.stores["registry"].load(CHANGES_OF_REGISTRY)).events) <= 120

    run(scenario())


def test_records_are_found_by_caller_method_time_and_outcome() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        admin, mallory = mesh.client("registry", ADMIN), mesh.client("registry", MALLORY)
        await delete(admin)
        await refused_delete(mallory)
        await asyncio.sleep(3.0)
        since_ms = mesh.me.host.clock.now_ms()
        watch = admin.channel.server_stream(
            method_path("registry", "WatchEvents"),
            WatchEventsRequest(history="audit", filter=EventFilter(refused=True)),
            EventRecord,
            OPTIONS,
        )
        watching = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.1)
        await delete(admin, "late")
        await refused_delete(mallory, "late")
        await asyncio.sleep(WRITTEN_SECONDS)
        assert (await watching).metadata.actor == MALLORY

        async def found(**wanted: object) -> list[tuple[str, str]]:
            some = await records(mesh, filter=EventFilter(**wanted))  # type: ignore[arg-type]
            return [(call.principal, call.resource) for call, _ in some.calls if call.rpc == "DeleteStream"]

        assert await found(actor=MALLORY) == [(MALLORY, "stream/logs"), (MALLORY, "stream/late")]
        assert await found(refused=True) == await found(actor=MALLORY)
        assert await found(rpc="DeleteStream", since_ms=since_ms) == [(ADMIN, "stream/late"), (MALLORY, "stream/late")]
        assert await found(rpc="MoveStream") == []

    run(scenario())


def test_records_hold_no_secret_from_any_field_but_names(tmp_path: Path) -> None:
    """A request full of secrets, a claimed name, and an error that quotes one: none is in the store or the file."""

    async def scenario() -> None:
        log = tmp_path / "audit.jsonl"
        mesh = await Mesh(access=AccessSettings(), audit=AuditSettings(Reads.ALL, log=str(log))).start()
        client = mesh.client("registry", ADMIN)
        spec = ClusterSpec(security_profile=SECRET, topic_prefix=SECRET)
        request = registry.CreateClusterRequest(name="east", spec=spec, take_over=SECRET)
        path = method_path("registry", "CreateCluster")
        await client.channel.unary(path, request, registry.CreateClusterRequest, OPTIONS)
        move = registry.MoveStreamRequest(stream="logs", reason=SECRET)
        await client.channel.unary(method_path("registry", "MoveStream"), move, registry.MoveStreamRequest, OPTIONS)
        await asyncio.sleep(WRITTEN_SECONDS)
        raw = b"".join(each.data for each in await listed(mesh, "registry"))
        assert b"CreateCluster" in raw and b"MoveStream" in raw
        assert SECRET.encode() not in raw
        assert "CreateCluster" in log.read_text() and SECRET not in log.read_text()

    run(scenario())


def test_json_lines_have_their_fields_and_follow_a_rotated_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = tmp_path / "audit.jsonl"
        mesh = await Mesh(audit=AuditSettings(log=str(log))).start()
        await delete(mesh.client("registry", ADMIN, "10.0.0.7"))
        await asyncio.sleep(WRITTEN_SECONDS)
        log.rename(tmp_path / "audit.1")
        await refused_delete(mesh.client("registry", MALLORY))
        mesh.stores["registry"].disconnect()  # the file does not wait for the store
        await asyncio.sleep(WRITTEN_SECONDS)
        (first,) = [json.loads(line) for line in (tmp_path / "audit.1").read_text().splitlines()]
        (second,) = [json.loads(line) for line in log.read_text().splitlines()]
        assert first.keys() == second.keys()
        assert (first["rpc"], first["outcome"], first["address"]) == ("DeleteStream", "ok", "10.0.0.7")
        assert (second["principal"], second["outcome"], second["reason"]) == (MALLORY, "refused", "denied")
        assert first["time"].endswith("Z") and log.stat().st_mode & 0o777 == 0o600

    run(scenario())


def test_a_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(Invalid, match="cannot write audit lines"):
            Mesh(audit=AuditSettings(log=str(tmp_path / "missing" / "audit.jsonl")))

    run(scenario())


def test_a_replica_without_calls_keeps_no_session_for_records() -> None:
    async def scenario() -> None:
        mesh = await Mesh(audit=AUDIT).start()
        await delete(mesh.client("registry", ADMIN))
        await asyncio.sleep(WRITTEN_SECONDS)
        store = mesh.stores["registry"]
        assert await store.leader("audit.registry.registry-0") is not None
        await asyncio.sleep(AUDIT_SESSION_IDLE_SECONDS + 2.0)
        assert await store.leader("audit.registry.registry-0") is None

    run(scenario())


def test_what_is_left_is_written_when_a_replica_ends() -> None:
    async def scenario() -> None:
        mesh = await Mesh("lagmon", audit=AUDIT).start()
        await delete(mesh.client("registry", ADMIN))
        mesh.replicas["registry"].stop()
        await asyncio.sleep(8.0)
        assert len((await records(mesh, "lagmon")).of("DeleteStream")) == 1

    run(scenario())


def test_with_open_access_changes_are_recorded_as_claims() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=AccessSettings(), audit=AUDIT).start()
        await delete(mesh.client("registry", None), options=replace(OPTIONS, principal="web-1"))
        await asyncio.sleep(WRITTEN_SECONDS)
        ((call, _),) = (await records(mesh)).of("DeleteStream")
        assert (call.principal, call.authenticated) == ("web-1", False)

    run(scenario())


def test_a_viewer_of_the_mesh_has_the_right_to_read_records() -> None:
    async def scenario() -> None:
        mesh = await Mesh(access=ENFORCED, audit=AUDIT).start()
        await mesh.grant("dns:auditor", Role.VIEWER, MESH)
        await mesh.grant("dns:owner", Role.STREAM_OWNER, Resource(ResourceKind.STREAM, "*"))
        path = method_path("registry", "ListEvents")
        request = ListEventsRequest(history="audit")
        await mesh.client("registry", "dns:auditor").channel.unary(path, request, ListEventsResponse, OPTIONS)
        with pytest.raises(AccessDenied):
            await mesh.client("registry", "dns:owner").channel.unary(path, request, ListEventsResponse, OPTIONS)

    run(scenario())
