"""One other lag monitor: asked again and again for what it reads, and what it said last."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypeVar

from structlog.stdlib import BoundLogger

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import progress_pb2
from braid.kernel.errors import BraidError, DeadlineExceeded, Unavailable
from braid.kernel.limits.lagmon.division import (
    LAG_MEMBER_GONE_SECONDS,
    LAG_MEMBER_SECONDS,
    LAG_PEER_AGAIN_SECONDS,
    LAG_PEER_ANSWER_SECONDS,
    LAG_PEER_FAILURES,
    LAG_PEER_HISTORY_SECONDS,
    LAG_PEER_MESSAGE_SECONDS,
    LAG_PEER_PAUSE_SECONDS,
    LAG_PEER_SECONDS,
)
from braid.kernel.limits.lagmon.sampling import LAG_PAUSE_FACTOR
from braid.kernel.ports import CallOptions, Host, RpcChannel
from braid.rpc.methods import method_path
from services.lagmon.division.packing import DamagedColumns
from services.lagmon.division.views import ClusterView
from services.lagmon.exchange.answers import Answer

T = TypeVar("T")

_METHOD: Final = method_path("lagmon", "ReadLagColumns")
_HISTORY: Final = method_path("lagmon", "ListLagHistory")
_PROGRESS: Final = method_path("lagmon", "GetProgress")


class Peer:
    """Another lag monitor, and what it reads.

    Attributes:
        instance: Its name.
        listed: Whether the directory lists it.
        views: What it reads, by cluster.
    """

    def __init__(
        self,
        host: Host,
        channel: RpcChannel,
        instance: str,
        asker: str,
        told: Callable[[], None],
        dropped: Callable[[ClusterView], None],
        log: BoundLogger,
    ) -> None:
        """`told` is called after each answer, or time without one; `dropped` with views that none follows."""
        self.instance = instance
        self.listed = True
        self.views: Mapping[str, ClusterView] = {}
        self._host = host
        self._channel = channel
        self._asker = asker
        self._told = told
        self._dropped = dropped
        self._log = log.bind(peer=instance)
        self._life = ""
        self._heard_at = host.clock.elapsed()  # it may be starting
        self._failures = 0
        self._refuses = ""

    @property
    def is_member(self) -> bool:
        """Whether clusters are divided with it: it shares what it reads, and answered lately."""
        most = LAG_MEMBER_SECONDS if self.listed else LAG_MEMBER_GONE_SECONDS
        silent = self._host.clock.elapsed() - self._heard_at > most and self._failures >= LAG_PEER_FAILURES
        return not self._refuses and not silent

    @property
    def is_gone(self) -> bool:
        """Whether nobody needs to ask it any more."""
        return not self.listed and not self.is_member

    async def run(self) -> None:
        """Asks until cancelled; answers that took long are asked for less often."""
        clock = self._host.clock
        while True:
            began = clock.elapsed()
            pause = LAG_PEER_SECONDS
            try:
                async with asyncio.timeout(LAG_PEER_ANSWER_SECONDS):
                    await self._ask(began)
                self._refuses = ""
            except (Unavailable, DeadlineExceeded, TimeoutError):
                self._failures += 1  # it may be gone, paused or busy: its last rows stand, and grow older
            except (BraidError, DamagedColumns) as error:
                pause = LAG_PEER_AGAIN_SECONDS
                self._refuse(str(error))
            self._told()
            took = clock.elapsed() - began
            await clock.sleep(max(pause, min(took * LAG_PAUSE_FACTOR, LAG_PEER_PAUSE_SECONDS)))

    async def history(self, request: api.ListLagHistoryRequest) -> api.ListLagHistoryResponse:
        """Asks for lag over time that it keeps. Raises a `BraidError`, such as `DeadlineExceeded`."""
        return await self._once(_HISTORY, request, api.ListLagHistoryResponse)

    async def progress(self, request: api.GetProgressRequest) -> progress_pb2.Progress:
        """Asks for a partition's progress that it read. Raises a `BraidError`: `NotFound` where it read none."""
        return await self._once(_PROGRESS, request, progress_pb2.Progress)

    async def _once(self, method: str, request: object, response_type: type[T]) -> T:
        options = CallOptions(LAG_PEER_HISTORY_SECONDS, self._host.ids.ulid(), principal=self._asker)
        return await self._channel.unary(method, request, response_type, options)

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close()

    async def _ask(self, began: float) -> None:
        versions = {name: view.reading.version for name, view in self.views.items()}
        request = api.ReadLagColumnsRequest(instance=self._asker, life=self._life, versions=versions)
        options = CallOptions(0.0, self._host.ids.ulid(), principal=self._asker)
        answers = self._channel.server_stream(_METHOD, request, api.ReadLagColumnsResponse, options)
        first = await self._next(answers)
        if first is None:
            raise Unavailable(f"{self.instance} answered nothing")
        answer = Answer(first)
        while (message := await self._next(answers)) is not None:
            answer.add(message)
        goes_on = first.life == self._life
        before, self.views = self.views, answer.views(self.views if goes_on else {}, began)
        self._life = first.life
        for name, view in before.items():
            now = self.views.get(name)
            if now is None or not (goes_on or now.reading.caught_up):
                self._dropped(view)

    async def _next(self, answers: AsyncIterator[api.ReadLagColumnsResponse]) -> api.ReadLagColumnsResponse | None:
        async with asyncio.timeout(LAG_PEER_MESSAGE_SECONDS):
            message = await anext(answers, None)
        self._heard_at, self._failures = self._host.clock.elapsed(), 0
        return message

    def _refuse(self, why: str) -> None:
        if why != self._refuses:
            self._log.info("a lag monitor does not share what it reads: this one reads by itself", why=why)
        self._refuses, self._life, self.views = why, "", {}
