"""Asks the other replicas of a mesh for their wall clocks, and finds those that differ too much."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.kernel.errors import BraidError
from braid.kernel.limits.runtime import CLOCK_ASK_SECONDS
from braid.kernel.ports import CallOptions, RpcChannel
from braid.rpc.directory import KnownEndpoint
from braid.rpc.methods import method_path
from braid.runtime.clocks.led_time import ClockOffset, apart

if TYPE_CHECKING:
    from braid.runtime.replica import Replica


class ClockWatch:
    """Compares the wall clocks of all replicas. A reading is accurate to the round trip of its request."""

    def __init__(self, replica: "Replica") -> None:
        self._replica = replica
        self._channels: dict[str, RpcChannel] = {}

    async def compare(self, known: Mapping[str, int]) -> Mapping[str, int]:
        """Clocks too far from the median, by instance, and how far ahead of it they are.

        Args:
            known: The previous result, used for listed replicas that do not answer.
        """
        mine = self._replica.address
        listed = [each for each in await self._replica.endpoints() if each.address != mine]
        await self._forget({each.address for each in listed})
        answers = await asyncio.gather(*map(self._ask, listed))
        offsets = {each.instance: found for each, found in zip(listed, answers, strict=True) if found is not None}
        silent = {each.instance for each in listed} - offsets.keys()
        kept = {name: ahead_ms for name, ahead_ms in known.items() if name in silent}
        return {**kept, **apart({self._replica.instance: ClockOffset(0.0), **offsets})}

    async def close(self) -> None:
        """Closes connections to the other replicas."""
        await self._forget(set())

    async def _ask(self, endpoint: KnownEndpoint) -> ClockOffset | None:
        """How far the replica's clock is ahead of this one's; None if it does not answer."""
        channel = self._channels.get(endpoint.address)
        if channel is None:
            channel = self._replica.transport.channel(endpoint.address, endpoint.tls_address)
            self._channels[endpoint.address] = channel
        clock, path = self._replica.host.clock, method_path(endpoint.service, "ListEndpoints")
        try:
            asked, asked_ms = clock.elapsed(), clock.now_ms()
            answer = await channel.unary(
                path, ListEndpointsRequest(), ListEndpointsResponse, CallOptions(CLOCK_ASK_SECONDS)
            )
        except BraidError:
            return None
        round_trip_ms = (clock.elapsed() - asked) * 1_000
        return ClockOffset(answer.time_ms - asked_ms - round_trip_ms / 2, round_trip_ms / 2) if answer.time_ms else None

    async def _forget(self, staying: set[str]) -> None:
        for address in [each for each in self._channels if each not in staying]:
            await self._channels.pop(address).close()
