"""The demo's own calls to the services, each noted as a span that the shipper ships like any other telemetry."""

import json
import time
from pathlib import Path
from typing import Final, TypeVar

import braid
from braid.api.dlq.v1.dead_letter_pb2 import DeadLetter
from braid.api.dlq.v1.dlq_service_pb2 import (
    CreateReplayRequest,
    CreateReplayResponse,
    GetReplayRequest,
    ListDeadLettersRequest,
    ListDeadLettersResponse,
)
from braid.api.dlq.v1.replay_pb2 import Replay, ReplaySpec
from braid.api.lagmon.v1.lag_pb2 import Lag, LagDetail
from braid.api.lagmon.v1.lagmon_service_pb2 import LagFilter, ListLagRequest, ListLagResponse
from braid.api.registry.v1.registry_service_pb2 import (
    CreateStreamRequest,
    GetStreamRequest,
    MoveStreamRequest,
    MoveStreamResponse,
)
from braid.api.registry.v1.stream_pb2 import Channel, ChannelState, DrainStep, LaneSpec, Stream, StreamSpec

T = TypeVar("T")

LANES: Final = {"live": 6, "bulk": 3}
_STREAM_SECONDS: Final = 30.0
_CALL_SECONDS: Final = 5.0
_ROWS: Final = 1_000


class Control:
    """Creates, watches and moves one stream, asks for lag, re-delivers dead letters.

    Args:
        mesh: Connected.
        stream: Its name.
        spans: File that gets a line for each call.
    """

    def __init__(self, mesh: braid.Mesh, stream: str, spans: Path) -> None:
        self._mesh = mesh
        self._stream = stream
        self._spans = spans

    async def create(self) -> None:
        """Makes the stream. Raises `BraidError` when the mesh refuses."""
        lanes = {name: LaneSpec(partitions=partitions) for name, partitions in LANES.items()}
        spec = StreamSpec(lanes=lanes, replication_factor=1, retention_hours=24)
        request = CreateStreamRequest(name=self._stream, spec=spec)
        await self._call("registry", "CreateStream", request, Stream, _STREAM_SECONDS)

    async def channels(self) -> list[Channel]:
        """All channels of the stream that have a topic."""
        request = GetStreamRequest(name=self._stream)
        stream = await self._call("registry", "GetStream", request, Stream, _CALL_SECONDS)
        return list(stream.status.channels)

    async def move(self, cluster: str) -> list[str]:
        """Moves every lane to a cluster; returns the channels that begin to drain."""
        request = MoveStreamRequest(stream=self._stream, to_cluster=cluster, reason="demo: back home")
        moved = await self._call("registry", "MoveStream", request, MoveStreamResponse, _STREAM_SECONDS)
        return [channel for move in moved.moves for channel in move.from_channels]

    async def lag(self, group: str) -> list[Lag]:
        """How far a group is behind, by lane and cluster."""
        wanted = LagFilter(group=group, stream=self._stream)
        request = ListLagRequest(filter=wanted, detail=LagDetail.LAG_DETAIL_CHANNEL, page_size=_ROWS)
        return list((await self._call("lagmon", "ListLag", request, ListLagResponse, _CALL_SECONDS)).lags)

    async def letters(self) -> list[DeadLetter]:
        """The stream's dead letters."""
        request = ListDeadLettersRequest(stream=self._stream, page_size=_ROWS)
        return list(
            (await self._call("dlq", "ListDeadLetters", request, ListDeadLettersResponse, _CALL_SECONDS)).letters
        )

    async def replay(self, where: str) -> Replay:
        """Begins to send those dead letters again, each to the group that gave it up."""
        request = CreateReplayRequest(spec=ReplaySpec(stream=self._stream, filter=where))
        return (await self._call("dlq", "CreateReplay", request, CreateReplayResponse, _STREAM_SECONDS)).replay

    async def replayed(self, replay: str) -> Replay:
        """How far a replay has come."""
        return await self._call("dlq", "GetReplay", GetReplayRequest(id=replay), Replay, _CALL_SECONDS)

    async def _call(self, service: str, method: str, request: object, answer: type[T], timeout_seconds: float) -> T:
        begun_ns = time.time_ns()
        try:
            client = self._mesh.service(service)
            return await client.unary(method, request, answer, timeout_seconds=timeout_seconds)
        finally:
            span = {"name": f"{service}/{method}", "at_ns": begun_ns, "took_ns": time.time_ns() - begun_ns}
            with self._spans.open("a") as file:
                file.write(json.dumps(span) + "\n")


def serving(channels: list[Channel], cluster: str) -> list[Channel]:
    """The channels on a cluster that take or hold records."""
    states = (ChannelState.CHANNEL_STATE_ACTIVE, ChannelState.CHANNEL_STATE_DRAINING)
    return [channel for channel in channels if channel.cluster == cluster and channel.state in states]


def active_cluster(channels: list[Channel], lane: str) -> str:
    """The cluster that carries a lane; '' when none does."""
    found = (each.cluster for each in channels if each.lane == lane and each.state == ChannelState.CHANNEL_STATE_ACTIVE)
    return next(found, "")


def undrained(channels: list[Channel], names: list[str]) -> list[str]:
    """Which of the named channels are not DRAINED yet, each with what it waits for."""
    over = (ChannelState.CHANNEL_STATE_DRAINED, ChannelState.CHANNEL_STATE_RETIRED)
    return [_waits(channel) for channel in channels if channel.name in names and channel.state not in over]


def _waits(channel: Channel) -> str:
    if channel.stranded:
        return f"{channel.name}: its cluster is away"
    step = DrainStep.Name(channel.drain_step).removeprefix("DRAIN_STEP_").lower().replace("_", " ")
    holders = f" ({', '.join(channel.drain_holders)})" if channel.drain_holders else ""
    return f"{channel.name}: {step}{holders}"
