"""Calls are admitted before their requests are read, and told when they have ended, over every transport."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from braid.kernel.access.quotas import retry_seconds
from braid.kernel.errors import Invalid, QuotaExceeded, Unavailable
from braid.kernel.ports import Admitted, Caller, DuplexServing
from testbed.patience import until
from tests.contract.rpc.conftest import OPTIONS, Mesh, path, say


class Door:
    """Counts calls; refuses them once it is shut."""

    def __init__(self) -> None:
        self.shut = False
        self.asked: list[str] = []
        self.open = 0

    async def admit(self, method: str, caller: Caller) -> Admitted:
        """See `RpcService.admit`."""
        self.asked.append(method)
        if self.shut:
            raise QuotaExceeded("too many", metadata={"tenant": "acme", "retry_ms": "1500"})
        self.open += 1
        return Admitted(replace(caller, tenant="found"), self._done)

    def _done(self) -> None:
        self.open -= 1


async def _whose(request: StringValue, caller: Caller) -> StringValue:
    if request.value == "wrong":
        raise Invalid("wrong")
    return say(caller.tenant)


async def _endless(request: StringValue, caller: Caller) -> AsyncIterator[StringValue]:
    while True:
        yield say(caller.tenant)
        await asyncio.sleep(0.01)


async def _echo(stream: DuplexServing) -> None:
    try:
        while await stream.receive() is not None:
            await stream.send(say(stream.caller.tenant))
    except Unavailable:
        pass


async def test_a_unary_call_is_admitted_and_counted_while_it_lasts(mesh: Mesh) -> None:
    door = Door()
    channel = mesh.channel((await mesh.serve(unaries={"Whose": _whose}, admit=door.admit)).address)
    assert (await channel.unary(path("Whose"), say("x"), StringValue, OPTIONS)).value == "found"
    with pytest.raises(Invalid):
        await channel.unary(path("Whose"), say("wrong"), StringValue, OPTIONS)
    await until(lambda: door.open == 0, "a call is still counted")
    assert door.asked == [path("Whose")] * 2


async def test_streams_are_counted_until_they_end(mesh: Mesh) -> None:
    door = Door()
    server = await mesh.serve(streams={"Endless": _endless}, duplexes={"Echo": _echo}, admit=door.admit)
    channel = mesh.channel(server.address)
    call = channel.duplex(path("Echo"), StringValue, OPTIONS)
    await call.send(say("x"))
    assert await call.receive() == say("found")
    async for message in channel.server_stream(path("Endless"), say("x"), StringValue, OPTIONS):
        assert message == say("found") and door.open == 2
        break
    await call.close()
    await until(lambda: door.open == 0, "a stream is still counted")


async def test_a_refused_call_says_when_to_come_again(mesh: Mesh) -> None:
    door = Door()
    server = await mesh.serve(
        unaries={"Whose": _whose}, streams={"Endless": _endless}, duplexes={"Echo": _echo}, admit=door.admit
    )
    channel, door.shut = mesh.channel(server.address), True
    with pytest.raises(QuotaExceeded, match="too many") as refused:
        await channel.unary(path("Whose"), say("x"), StringValue, OPTIONS)
    assert retry_seconds(refused.value) == 1.5
    with pytest.raises(QuotaExceeded):
        await anext(channel.server_stream(path("Endless"), say("x"), StringValue, OPTIONS))
    with pytest.raises(QuotaExceeded):  # although it says nothing
        await channel.duplex(path("Echo"), StringValue, OPTIONS).receive()
    assert door.open == 0
