"""Reads of one service that are asked for at one moment, sent as one call.

A service that does not know such calls, as replicas of older releases, is asked in single calls. A read that takes
long leaves the calls of others for a while, so that it slows down nothing but itself.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from braid.api.mesh.v1.read_pb2 import ReadAnswer, ReadManyRequest, ReadManyResponse, ReadPart
from braid.kernel.errors import (
    BraidError,
    ClusterUnavailable,
    DeadlineExceeded,
    Invalid,
    NotLeader,
    QuotaExceeded,
    Unavailable,
    Unsupported,
)
from braid.kernel.limits.rpc import READ_PARTS_MAX, REQUEST_TEXT_CHARS_MAX
from braid.kernel.ports import Host
from braid.rpc.errors import from_bytes
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.messages import parser, serialize
from console.server.limits import (
    FOLLOWER_SECONDS,
    GATHER_SECONDS,
    PART_SECONDS,
    READ_SECONDS,
    SINGLE_SECONDS,
)

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Asked:
    """A read that waits for its answer.

    Attributes:
        part: It as a part of a call.
        request: What it asks.
        response_type: What it is answered with.
        leader: Whether the leader is to answer it.
        answered: Gets the response, or the error. It is done early where whoever asked has gone.
    """

    part: ReadPart
    request: object
    response_type: type[object]
    leader: bool
    answered: "asyncio.Future[object]"

    def answer(self, response: object) -> None:
        """Gives the response."""
        if not self.answered.done():
            self.answered.set_result(response)

    def fail(self, error: BraidError) -> None:
        """Gives the error."""
        if not self.answered.done():
            self.answered.set_exception(error)


@dataclass(slots=True)
class _Batch:
    """Reads that are sent together, and the time that their call may take."""

    seconds: float
    asked: list[_Asked] = field(default_factory=list)

    @property
    def leader(self) -> bool:
        """Whether the leader is asked: one of them needs it, and the others take any replica."""
        return any(each.leader for each in self.asked)


class Gathering:
    """The reads of one service, as one caller."""

    def __init__(self, host: Host, client: ServiceClient) -> None:
        self._host = host
        self._client = client
        self._open: dict[float, _Batch] = {}  # which others may still join, by the time that they may take
        self._single_until = 0.0  # the service does not know calls of several reads
        self._slow_until: dict[str, float] = {}  # by method

    async def ask(
        self, method: str, request: object, response_type: type[T], seconds: float, *, leader: bool, alone: bool = False
    ) -> T:
        """Asks the leader or any replica, together with what else is asked within a moment.

        Args:
            method: Its short name. It changes nothing.
            request: What it asks.
            response_type: What it is answered with.
            seconds: The time that it may take.
            leader: Whether the leader is to answer it.
            alone: Sends it by itself, and at once.

        Raises:
            Unavailable: no replica answered within the time.
            BraidError: the service's answer is this error.
        """
        part = ReadPart(method=method, request=serialize(request))
        asked = _Asked(part, request, response_type, leader, asyncio.get_running_loop().create_future())
        if alone or not self._may_join(part):
            await self._alone(asked, seconds)
        else:
            self._join(asked, seconds)
        found = await asked.answered
        assert isinstance(found, response_type), "it was parsed as such"
        return found

    def _may_join(self, part: ReadPart) -> bool:
        free_at = max(self._single_until, self._slow_until.get(part.method, 0.0))
        return self._host.clock.elapsed() >= free_at and len(part.request) <= REQUEST_TEXT_CHARS_MAX

    def _join(self, asked: _Asked, seconds: float) -> None:
        batch = self._open.get(seconds)
        if batch is None:
            batch = self._open[seconds] = _Batch(seconds)
            self._host.tasks.spawn(self._send(batch), "reads")
        batch.asked.append(asked)
        if len(batch.asked) == READ_PARTS_MAX:
            del self._open[seconds]

    async def _send(self, batch: _Batch) -> None:
        try:
            await self._host.clock.sleep(GATHER_SECONDS)
            if self._open.get(batch.seconds) is batch:
                del self._open[batch.seconds]
            wanted = [each for each in batch.asked if not each.answered.done()]
            if len(wanted) == 1:
                await self._alone(wanted[0], batch.seconds)
            elif wanted:
                await self._together(_Batch(batch.seconds, wanted))
        finally:
            for each in batch.asked:
                each.answered.cancel()  # nothing where there is an answer

    async def _alone(self, asked: _Asked, seconds: float) -> None:
        """Asks for one read in a call of its own, which follows redirects and is tried again."""
        method, any_replica = asked.part.method, not asked.leader
        try:
            asked.answer(
                await self._client.unary(
                    method, asked.request, asked.response_type, timeout_seconds=seconds, any_replica=any_replica
                )
            )
        except BraidError as error:
            asked.fail(error)

    async def _together(self, batch: _Batch) -> None:
        ends = self._host.clock.elapsed() + batch.seconds
        again = await self._in_one_call(batch)
        left = max(ends - self._host.clock.elapsed(), FOLLOWER_SECONDS)
        await asyncio.gather(*(self._alone(each, left) for each in again))

    async def _in_one_call(self, batch: _Batch) -> Sequence[_Asked]:
        """Asks for several reads in one call. Returns those that must be asked for alone."""
        within = batch.seconds if batch.seconds > READ_SECONDS else PART_SECONDS
        request = ReadManyRequest(parts=[each.part for each in batch.asked], within_ms=int(within * 1_000))
        any_replica = not batch.leader
        try:
            found = await self._client.unary(
                "ReadMany", request, ReadManyResponse, timeout_seconds=batch.seconds, any_replica=any_replica
            )
        except (Unsupported, Invalid):  # an older release knows no such call, or not all of the methods
            self._single_until = self._host.clock.elapsed() + SINGLE_SECONDS
            return batch.asked
        except BraidError as error:
            elsewhere = batch.leader and isinstance(error, Unavailable | DeadlineExceeded)
            again = [each for each in batch.asked if elsewhere and not each.leader]
            for each in batch.asked:
                if each not in again:
                    each.fail(error)
            return again
        if len(found.answers) != len(batch.asked):  # nobody knows which answer is whose
            return batch.asked
        return [each for each, answer in zip(batch.asked, found.answers, strict=True) if self._again(each, answer)]

    def _again(self, asked: _Asked, answer: ReadAnswer) -> bool:
        """Gives a read its answer. Returns whether it must be asked for alone instead."""
        try:
            response = _response(answer, asked.response_type)
        except DeadlineExceeded:
            self._slow_until[asked.part.method] = self._host.clock.elapsed() + SINGLE_SECONDS
            return True
        except ClusterUnavailable as error:
            asked.fail(error)
        except (Unavailable, NotLeader, QuotaExceeded):  # a call of its own waits, and finds the leader
            return True
        except BraidError as error:
            asked.fail(error)
        else:
            if response is None:
                return True
            asked.answer(response)
        return False


def _response(answer: ReadAnswer, response_type: type[T]) -> T | None:
    """The response of a read; None where it was left out. Raises the error that it failed with."""
    if answer.HasField("response"):
        return parser(response_type)(answer.response)
    if answer.HasField("status"):
        raise from_bytes(answer.status)
    return None
