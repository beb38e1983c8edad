"""Unary calls, over every transport."""

import asyncio
from dataclasses import replace

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.errors import (
    BraidError,
    DeadlineExceeded,
    Exhausted,
    Invalid,
    NotLeader,
    Unavailable,
    Unsupported,
)
from braid.kernel.limits.rpc import MESSAGE_BYTES_MAX
from braid.kernel.limits.telemetry import TRACESTATE_BYTES_MAX
from braid.kernel.ports import NO_TRACE, Caller, CallOptions, TraceContext
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say


async def _echo(request: StringValue, caller: Caller) -> StringValue:
    return say(f"{request.value} from {caller.principal} of {caller.tenant} as {caller.request_id}")


async def test_request_and_what_travels_beside_it_arrive(mesh: Mesh) -> None:
    server = await mesh.serve(unaries={"Echo": _echo})
    answer = await mesh.channel(server.address).unary(path("Echo"), say("hello"), StringValue, OPTIONS)
    assert answer.value == f"hello from {mesh.principal()} of acme as request-1"


async def test_trace_context_arrives_beside_a_call_within_bounds(mesh: Mesh) -> None:
    traces: list[TraceContext] = []

    async def traced(request: StringValue, caller: Caller) -> StringValue:
        traces.append(caller.trace)
        return request

    server, parent = (
        await mesh.serve(unaries={"Trace": traced}),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    channel = mesh.channel(server.address)
    long = f"a={'b' * TRACESTATE_BYTES_MAX}"
    for told in (TraceContext(parent, "a=b"), TraceContext(parent, long), TraceContext("x" * 1_000, "a=b"), NO_TRACE):
        await channel.unary(path("Trace"), say("x"), StringValue, replace(OPTIONS, trace=told))
    assert traces == [TraceContext(parent, "a=b"), TraceContext(parent), NO_TRACE, NO_TRACE]


async def test_only_a_certificate_authenticates_a_caller(mesh: Mesh) -> None:
    callers: list[Caller] = []

    async def who(request: StringValue, caller: Caller) -> StringValue:
        callers.append(caller)
        return request

    server = await mesh.serve(unaries={"Who": who})
    await mesh.channel(server.address).unary(path("Who"), say("me"), StringValue, OPTIONS)
    assert [caller.authenticated for caller in callers] == [bool(mesh.identity)]


async def test_absent_identity_has_defaults(mesh: Mesh) -> None:
    server = await mesh.serve(unaries={"Echo": _echo})
    answer = await mesh.channel(server.address).unary(path("Echo"), say("hello"), StringValue, CallOptions(5.0))
    assert answer.value == f"hello from {mesh.principal('')} of default as "


async def test_errors_arrive_as_raised(mesh: Mesh) -> None:
    async def refuse(request: StringValue, caller: Caller) -> StringValue:
        if request.value == "leader":
            raise NotLeader("ask the leader", remedy="go there", metadata={"leader": "10.0.0.7:7401"})
        raise Invalid("too many — of them", field="spec.lanes.live.partitions")

    channel = mesh.channel((await mesh.serve(unaries={"Refuse": refuse})).address)
    with pytest.raises(NotLeader) as redirect:
        await channel.unary(path("Refuse"), say("leader"), StringValue, OPTIONS)
    assert redirect.value.leader == "10.0.0.7:7401"
    assert redirect.value.remedy == "go there"
    with pytest.raises(Invalid) as invalid:
        await channel.unary(path("Refuse"), say(""), StringValue, OPTIONS)
    assert invalid.value.field == "spec.lanes.live.partitions"
    assert invalid.value.message == "too many — of them"


async def test_unknown_method_is_unsupported(mesh: Mesh) -> None:
    server = await mesh.serve(unaries={"Echo": _echo})
    with pytest.raises(Unsupported):
        await mesh.channel(server.address).unary(path("Nothing"), say("x"), StringValue, OPTIONS)


async def test_nobody_there_is_unavailable_and_names_the_address(mesh: Mesh) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        await mesh.channel("127.0.0.1:1").unary(path("Echo"), say("x"), StringValue, OPTIONS)


async def test_a_deadline_ends_the_call_on_both_sides(mesh: Mesh) -> None:
    cancelled = asyncio.Event()

    async def hang(request: StringValue, caller: Caller) -> StringValue:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return request

    channel = mesh.channel((await mesh.serve(unaries={"Hang": hang})).address)
    with pytest.raises(DeadlineExceeded):
        await channel.unary(path("Hang"), say("x"), StringValue, CallOptions(0.2))
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_a_message_over_the_limit_is_refused(mesh: Mesh) -> None:
    server = await mesh.serve(unaries={"Echo": _echo})
    with pytest.raises(Exhausted):
        await mesh.channel(server.address).unary(path("Echo"), say("x" * MESSAGE_BYTES_MAX), StringValue, OPTIONS)


async def test_a_closed_channel_is_unavailable(mesh: Mesh) -> None:
    channel = mesh.channel((await mesh.serve(unaries={"Echo": _echo})).address)
    await channel.close()
    with pytest.raises(Unavailable):
        await channel.unary(path("Echo"), say("x"), StringValue, OPTIONS)


async def test_a_taken_port_is_unavailable_and_named(mesh: Mesh) -> None:
    server = await mesh.serve(unaries={"Echo": _echo})
    with pytest.raises(Unavailable, match=server.address):
        await mesh.serve(unaries={"Echo": _echo}, address=server.address)


async def test_stopping_lets_a_running_call_finish(mesh: Mesh) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow(request: StringValue, caller: Caller) -> StringValue:
        arrived.set()
        await go.wait()
        return say("finished")

    server = await mesh.serve(unaries={"Slow": slow})
    call = asyncio.create_task(mesh.channel(server.address).unary(path("Slow"), say("x"), StringValue, OPTIONS))
    await arrived.wait()
    stopping = asyncio.create_task(server.stop(5.0))
    await asyncio.sleep(0)
    go.set()
    assert (await call).value == "finished"
    await stopping
    with pytest.raises(BraidError):
        await mesh.channel(server.address).unary(path("Slow"), say("x"), StringValue, OPTIONS)
