"""Callers whom mutual TLS does not know, at every method of every service: none of them gets to a handler."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
import pytest

from braid.host.tls.files import TlsFiles
from braid.kernel.access.table import TABLE
from braid.rpc.grpc.transport import GrpcTransport
from testbed.authority import ALICE, Authority
from tests.unit.kernel.access.api import Method, methods
from tests.unit.runtime.access.mesh import RUNTIMES, CountingService

CALL_SECONDS: Final = 20.0
FIRST_ANSWER_SECONDS: Final = 2.0  # of streams that go on
OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)  # a connection that failed answers for no other


@asynccontextmanager
async def serving(counting: CountingService, authority: Authority, directory: Path) -> AsyncIterator[str]:
    """Serves every method of a service over mutual TLS, and nothing that asks for rights. Yields its address."""
    server = await GrpcTransport(TlsFiles(authority.service(directory))).serve("127.0.0.1:0", counting.counting())
    try:
        yield server.address
    finally:
        await server.stop(0.0)


def credentials(stranger: str, authority: Authority) -> grpc.ChannelCredentials | None:
    """The credentials of a caller; None for plain text. They check no more of the server than they must."""
    match stranger:
        case "in plain text":
            return None
        case "without a certificate":
            return grpc.ssl_channel_credentials(authority.pem)
        case "of another authority":
            pem, key = Authority.make().issue(uris=[ALICE])
        case "expired":
            pem, key = authority.issue(uris=[ALICE], lifetime=timedelta(days=-1))
        case _:
            pem, key = authority.issue(uris=[ALICE])
    return grpc.ssl_channel_credentials(authority.pem, key, pem)


async def call(address: str, shown: grpc.ChannelCredentials | None, method: Method, seconds: float) -> grpc.StatusCode:
    """Calls a method over a connection of its own; returns how that ended."""
    made = (
        grpc.aio.insecure_channel(address, OWN_CONNECTION)
        if shown is None
        else grpc.aio.secure_channel(address, shown, OWN_CONNECTION)
    )
    async with made as channel:
        try:
            await channel.unary_unary(method.path, bytes, bytes)(method.message().SerializeToString(), timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def call_each(
    address: str, shown: grpc.ChannelCredentials | None, asked: Sequence[Method], seconds: float
) -> dict[str, grpc.StatusCode]:
    """Calls methods at once; returns how each call ended."""
    ended = await asyncio.gather(*(call(address, shown, each, seconds) for each in asked))
    return {each.name: code for each, code in zip(asked, ended, strict=True)}


@pytest.mark.parametrize("service", TABLE)
@pytest.mark.parametrize("stranger", ["in plain text", "without a certificate", "of another authority", "expired"])
async def test_a_stranger_reaches_no_method(stranger: str, service: str, authority: Authority, tmp_path: Path) -> None:
    counting, asked = CountingService(service), [each for each in methods() if each.service == service]
    async with serving(counting, authority, tmp_path) as address:
        ended = await call_each(address, credentials(stranger, authority), asked, CALL_SECONDS)
    assert ended == {each.name: grpc.StatusCode.UNAVAILABLE for each in asked}
    assert not counting.reached


@pytest.mark.parametrize("service", TABLE)
async def test_a_known_caller_reaches_every_method(service: str, authority: Authority, tmp_path: Path) -> None:
    """A control: the same calls with a certificate get to every handler."""
    counting = CountingService(service)
    asked = [each for each in methods() if each.service == service and each.name not in RUNTIMES]
    async with serving(counting, authority, tmp_path) as address:
        await call_each(address, credentials("known", authority), asked, FIRST_ANSWER_SECONDS)
    assert counting.reached.keys() == {each.name for each in asked}
