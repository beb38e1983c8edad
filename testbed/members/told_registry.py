"""A registry whose channels a test sets, for tests of the assigner: in simulation, and as a real process.

As a process (`python -m testbed.members.told_registry`, settings from the environment) it reads the JSON file that
`BRAID_TOLD_CHANNELS` names: a list of objects with the parameters of `Registry.set`, which may change at any time.
`BRAID_TOLD_BOOTSTRAP` is where cluster east answers, if it does.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.api.registry.v1 import registry_service_pb2, route_pb2, stream_pb2
from braid.kernel.errors import NotFound
from braid.kernel.ids import ChannelId
from braid.kernel.limits.registry.resources import WATCH_ALIVE_SECONDS
from braid.kernel.ports import Caller, RpcService
from braid.rpc.methods import method_path, server_stream, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.process import serve
from braid.runtime.replica import Replica
from braid.runtime.settings import Settings

STATES = {name.removeprefix("CHANNEL_STATE_"): number for name, number in stream_pb2.ChannelState.items()}


async def signalled(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, at most this long; returns whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


class Registry:
    """A `runtime.service.Service` that serves the channels a test sets."""

    name = "registry"
    kinds: Mapping[str, AnyKind] = {}

    def __init__(self, east: str = "east:9092") -> None:
        """Starts without channels; `east` is the address reported for that cluster."""
        self.bootstraps = {"east": east, "west": "west:9092"}
        self.revision = 100
        self.watches = 0
        self.lag_targets: dict[str, str] = {}  # of every stream
        self.channels: dict[str, stream_pb2.Channel] = {}
        self.changed = asyncio.Event()

    def set(self, name: str, partitions: int = 4, cluster: str = "east", state: str = "ACTIVE") -> None:
        """Sets a channel's state from now on."""
        self.revision += 1
        parsed = ChannelId.parse(name)
        self.channels[name] = stream_pb2.Channel(
            name=name,
            stream=parsed.stream,
            lane=parsed.lane,
            generation=parsed.generation,
            cluster=cluster,
            topic=parsed.topic("braid."),
            partitions=partitions,
            state=STATES[state],
        )
        self.changed.set()
        self.changed = asyncio.Event()

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""

        async def get_stream(request: registry_service_pb2.GetStreamRequest, caller: Caller) -> stream_pb2.Stream:
            if not any(channel.stream == request.name for channel in self.channels.values()):
                raise NotFound(f"there is no stream {request.name!r}")
            return stream_pb2.Stream(name=request.name, spec=stream_pb2.StreamSpec(lag_target=self.lag_targets))

        async def watch(
            request: route_pb2.WatchChannelsRequest, caller: Caller
        ) -> AsyncIterator[route_pb2.WatchChannelsResponse]:
            self.watches += 1
            full = True
            while True:
                changed = self.changed
                yield route_pb2.WatchChannelsResponse(
                    revision=self.revision,
                    channels=self.channels.values(),
                    clusters=[ClusterAddress(name=name, bootstrap=told) for name, told in self.bootstraps.items()],
                    full=full,
                )
                full = False
                while not await signalled(changed, WATCH_ALIVE_SECONDS):
                    yield route_pb2.WatchChannelsResponse(revision=self.revision)

        return RpcService(
            self.name,
            {method_path(self.name, "GetStream"): unary(registry_service_pb2.GetStreamRequest, get_stream)},
            {method_path(self.name, "WatchChannels"): server_stream(route_pb2.WatchChannelsRequest, watch)},
            {},
        )

    async def lead(self, replica: Replica) -> None:
        """Does nothing: followers serve as well."""

    async def follow(self, replica: Replica) -> None:
        """Reads the file again and again, if it runs as a process."""
        told = ""
        while path := os.environ.get("BRAID_TOLD_CHANNELS", ""):
            text = await replica.host.tasks.run_blocking(Path(path).read_text)
            if text != told:
                told = text
                for channel in json.loads(text):
                    self.set(**channel)
            await replica.host.clock.sleep(0.02)


if __name__ == "__main__":
    told = Registry(os.environ.get("BRAID_TOLD_BOOTSTRAP", "east:9092"))
    sys.exit(serve(told, Settings()))  # type: ignore[call-arg]  # pydantic-settings reads the rest
