"""`ReadMany`: several reads of one service in one call, each admitted and decided on as if it came alone.

A part goes through everything that stands before a handler: the quotas of its caller's tenant, the bound on its open
calls, the table of rights, the bounds on requests, the audit, the measured times. Who calls was proved once, by the
connection. Methods that change something, streams and `ReadMany` itself are no parts.
"""

import asyncio
from collections.abc import Iterable, Sequence

from google.protobuf.message import Message

from braid.api.mesh.v1.read_pb2 import ReadAnswer, ReadManyRequest, ReadManyResponse, ReadPart
from braid.kernel.access.table import row_of
from braid.kernel.errors import BraidError, DeadlineExceeded, Invalid
from braid.kernel.limits.rpc import READ_BYTES_MAX, READ_PARTS_MAX
from braid.kernel.ports import Admitted, Caller, RpcService
from braid.rpc.errors import to_bytes
from braid.rpc.messages import parser, serialize
from braid.rpc.methods import method_path


class ManyReads:
    """The handler of `ReadMany` of one replica."""

    def __init__(self, service: str) -> None:
        """Prepares it for a service; `serves` says what its parts are answered by."""
        self._service = service
        self._served: RpcService | None = None

    def serves(self, service: RpcService) -> None:
        """Sets the service as callers reach it, with all that surrounds its handlers."""
        self._served = service

    async def read_many(self, request: ReadManyRequest, caller: Caller) -> ReadManyResponse:
        """Answers each part, with its response or its error.

        Raises:
            Invalid: there is no part or too many of them, or one names no method that may be a part.
        """
        if not 0 < len(request.parts) <= READ_PARTS_MAX:
            raise Invalid(f"{len(request.parts)} parts", field="parts", remedy=f"send 1 to {READ_PARTS_MAX}")
        if request.within_ms < 0:
            raise Invalid("a time below 0", field="within_ms", remedy="use 0 for the deadline of the call alone")
        for number, part in enumerate(request.parts):
            self._check(part, f"parts[{number}].method")
        within = request.within_ms / 1_000 or None
        parts = [self._answer(part, caller, within, counted=number > 0) for number, part in enumerate(request.parts)]
        found = await asyncio.gather(*parts, return_exceptions=True)
        return ReadManyResponse(answers=_bounded(_answered(found)))

    def _check(self, part: ReadPart, field: str) -> None:
        """Raises `Invalid` for a method that is no read, before anything is read."""
        row = row_of(self._service, part.method)
        if row is None or not row.reads or method_path(self._service, part.method) not in self._handlers.unary:
            remedy = f"name a method of {self._service} that answers once and changes nothing"
            raise Invalid(f"{part.method[:100]!r} is no method that may be a part", field=field, remedy=remedy)

    async def _answer(self, part: ReadPart, caller: Caller, within: float | None, *, counted: bool) -> ReadAnswer:
        try:
            return ReadAnswer(response=await self._read(part, caller, within, counted=counted))
        except BraidError as error:
            return ReadAnswer(status=to_bytes(error))

    async def _read(self, part: ReadPart, caller: Caller, within: float | None, *, counted: bool) -> bytes:
        """The response of a part. The call itself was counted as its first part when it began.

        Whoever is beyond a quota waits for that answer as long as alone, whatever time its parts have.
        """
        path = method_path(self._service, part.method)
        admitted = await self._handlers.admit(path, caller) if counted else Admitted(caller)
        try:
            kind, handler = self._handlers.unary[path]
            request: Message = parser(kind)(part.request)
            async with asyncio.timeout(within):
                return serialize(await handler(request, admitted.caller))
        except TimeoutError:
            raise DeadlineExceeded(f"{part.method} took longer than {within} s", remedy="ask for it alone") from None
        finally:
            admitted.done()

    @property
    def _handlers(self) -> RpcService:
        assert self._served is not None, "it is set before a replica serves"
        return self._served


def _answered(found: Iterable[ReadAnswer | BaseException]) -> Iterable[ReadAnswer]:
    """The answers. Raises what no handler was meant to raise."""
    for each in found:
        if isinstance(each, BaseException):
            raise each
        yield each


def _bounded(answers: Iterable[ReadAnswer]) -> Sequence[ReadAnswer]:
    """The answers that fit a message; each that does not is left out, and says so."""
    kept: list[ReadAnswer] = []
    left = READ_BYTES_MAX
    for each in answers:
        fits = each.ByteSize() <= left
        kept.append(each if fits else ReadAnswer(left_out=True))
        left -= each.ByteSize() if fits else 0
    return kept
