"""Follows the registry's channels on whichever replica leads. While none answers, the last state stays valid."""

import asyncio
from collections.abc import AsyncIterator, Callable

from braid.api.registry.v1 import route_pb2
from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.resources import WATCH_SILENCE_SECONDS
from braid.kernel.ports import Host
from braid.kernel.timing.backoff import Backoff
from braid.rpc.mesh_client import ServiceClient

_PROTOCOL_VERSION = 1
Take = Callable[[route_pb2.WatchChannelsResponse], None]


async def follow_channels(host: Host, registry: ServiceClient, take: Take) -> None:
    """Follows channels until cancelled. `take` gets each message with content; a `full` one replaces all before."""
    backoff = Backoff(host)
    request = route_pb2.WatchChannelsRequest(protocol_version=_PROTOCOL_VERSION)
    while True:
        try:
            messages = registry.server_stream("WatchChannels", request, route_pb2.WatchChannelsResponse)
            await _listen(messages, backoff, take)
        except BraidError:  # no leader, a restart, a broken connection: everything is told anew
            pass
        except TimeoutError:  # its process may be frozen, or its host cut off: the connection alone does not tell
            registry.forget_leader()
        await backoff.wait()


async def _listen(messages: AsyncIterator[route_pb2.WatchChannelsResponse], backoff: Backoff, take: Take) -> None:
    """Receives messages until the stream ends. Raises `TimeoutError` if it is silent for too long."""
    while True:
        async with asyncio.timeout(WATCH_SILENCE_SECONDS):
            message = await anext(messages, None)
        if message is None:
            return
        backoff.reset()
        if message.full or message.channels or message.clusters:
            take(message)
