"""The act in which a group answers a flood by itself, and takes the answer back when the flood is over."""

import time
from collections.abc import Callable
from typing import Final

from braid.api.assigner.v1.assigner_service_pb2 import GetGroupRequest, SetResponsesRequest
from braid.api.assigner.v1.group_pb2 import Group
from braid.api.assigner.v1.responses_pb2 import RESPONSE_KIND_SHIFT_SHARES, RESPONSE_MODE_AUTOMATIC, ResponsePolicy
from demo.display import Display
from demo.proof.verdict import Scenes
from demo.stage import Stage
from demo.traffic.flooded_stream import FLOOD, RATES, TARGET_SECONDS, FloodedStream, flooded_stream
from devmesh.documents import Ready

STREAM: Final = "orders"
GROUP: Final = "billing"
POLICY: Final = ResponsePolicy(
    kind=RESPONSE_KIND_SHIFT_SHARES, mode=RESPONSE_MODE_AUTOMATIC, cooldown_seconds=5, undo_after_seconds=10
)
_WAIT_SECONDS: Final = 180.0  # ends a story that hangs
_CALL_SECONDS: Final = 10.0
_LAGMON_LOG: Final = "mesh/services/lagmon-0/service.log"
_ASSIGNER_LOG: Final = "mesh/services/assigner-0/service.log"


class Flood:
    """The act, which plays beside others: its stream, sender and member are its own."""

    def __init__(self, stage: Stage, scenes: Scenes, ready: Ready) -> None:
        self._stage = stage
        self._display: Display = stage.display
        self._scenes = scenes
        self._ready = ready

    async def play(self) -> None:
        """The whole act. Raises `DemoFailed` or `BraidError`."""
        async with flooded_stream(self._ready.endpoint, STREAM, [GROUP], self._ready.user_tls) as stream:
            await self._until(stream, "a group that keeps its target", lambda lag: lag < TARGET_SECONDS)
            await self._answered(stream)
            await self._undone(stream)

    async def _answered(self, stream: FloodedStream) -> None:
        stream.flood()
        per_s = f"{RATES['bulk'] * FLOOD:g} records a second instead of {RATES['bulk']:g}"
        self._display.fault(f"a second stream, {STREAM}, is flooded in lane bulk: {per_s}")
        request = SetResponsesRequest(group=GROUP, policies=[POLICY])  # not before, or a slow start is answered
        assigner = stream.mesh.service("assigner")
        await assigner.unary("SetResponses", request, Group, timeout_seconds=_CALL_SECONDS)
        await self._until(stream, "a lane beyond its target", lambda lag: lag > TARGET_SECONDS)
        breach = time.monotonic()
        reason = await self._stage.until_told(
            "an answer to lag", _WAIT_SECONDS, lambda: self._reason(stream), look=_ASSIGNER_LOG
        )
        self._display.done(f"group {GROUP} answers: {reason}")
        await self._until(stream, "the lane within its target", lambda lag: lag <= TARGET_SECONDS)
        self._scenes.answered_ms = (time.monotonic() - breach) * 1000
        seconds = self._scenes.answered_ms / 1000
        self._display.done(f"lane live of {STREAM} is back within its target {seconds:.1f} s after it was left behind")

    async def _undone(self, stream: FloodedStream) -> None:
        stream.ebb()
        over = time.monotonic()

        async def undone() -> bool | None:
            return None if await self._reason(stream) is not None else True

        await self._stage.until_told("the end of the answer", _WAIT_SECONDS, undone, look=_ASSIGNER_LOG)
        self._scenes.undone_ms = (time.monotonic() - over) * 1000
        seconds = self._scenes.undone_ms / 1000
        self._display.done(f"the flood of {STREAM} is over, and the answer was undone {seconds:.1f} s later")

    async def _reason(self, stream: FloodedStream) -> str | None:
        """Why the group answers; None while it does not."""
        stream.check()
        request = GetGroupRequest(name=GROUP)
        group = await stream.mesh.service("assigner").unary("GetGroup", request, Group, timeout_seconds=_CALL_SECONDS)
        return next((each.reason for each in group.responses.responses), None)

    async def _until(self, stream: FloodedStream, what: str, holds: Callable[[float], bool]) -> None:
        async def reached() -> bool | None:
            lag = await stream.lag(GROUP)
            return True if lag is not None and holds(lag) else None

        await self._stage.until_told(what, _WAIT_SECONDS, reached, look=_LAGMON_LOG)
