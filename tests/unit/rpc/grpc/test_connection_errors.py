"""A replica that cannot be reached is told of in our words: its address once, and why, where the system says it."""

import asyncio
import socket

import pytest

from braid.host.system import system_host
from braid.kernel.errors import Unavailable
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport


async def test_an_address_with_no_listener_is_named_once_with_a_reason() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    directory = Directory(GrpcTransport(), system_host(), (address,))
    async with asyncio.timeout(20):
        with pytest.raises(Unavailable) as raised:
            await directory.refresh()
        await directory.close()
    assert raised.value.message == f"no replica of the mesh answers ({address}: no connection (connection refused))"
