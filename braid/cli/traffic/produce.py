"""The work of `produce`: sends lines as records, and counts acknowledgements."""

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from braid.cli.core.limits import CLI_BATCH_RECORDS, CLI_READ_BYTES
from braid.cli.core.lists import all_streams
from braid.cli.core.session import Session, missing_among
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Receipt
from braid.kernel.errors import BraidError, Invalid, NotFound
from braid.kernel.limits.registry.resources import RECORD_BYTES_MAX


class Line(NamedTuple):
    """A line to send as a record; `number` counts lines from 1."""

    number: int
    key: bytes | None
    value: bytes


class Tally:
    """The number of acknowledged records, by lane and cluster."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def total(self) -> int:
        """The number of acknowledged records."""
        return self._counts.total()

    def add(self, receipt: Receipt) -> None:
        """Counts one more record."""
        self._counts[receipt.channel.lane, receipt.cluster] += 1

    def text(self, stream: str, seconds: float) -> str:
        """The last line of a run's output."""
        noun = "record" if self.total == 1 else "records"
        where = ", ".join(f"{lane} on {cluster} {count}" for (lane, cluster), count in sorted(self._counts.items()))
        return f"stream/{stream} {self.total} {noun} acknowledged in {seconds:.1f} s{f': {where}' if where else ''}"


async def produce_lines(
    session: Session, stream: str, lane: str, delimiter: bytes, timeout_seconds: float, chunks: AsyncIterator[bytes]
) -> int:
    """Sends every line and waits for every acknowledgement.

    Raises:
        NotFound: the stream or lane does not exist.
        Invalid: a line has no key, or is too long; lines before it were sent.
        DeliveryUnknown: a record was not acknowledged in time.
    """
    tally = Tally()
    clock = session.ports.host.clock
    started = clock.elapsed()
    try:
        async with _opened(session, stream, timeout_seconds) as producer:
            async for batch in batches(chunks, delimiter):
                await _send(producer, lane, batch, tally)
                seconds = clock.elapsed() - started
                session.terminal.progress(
                    f"{tally.total} records acknowledged, {tally.total / max(seconds, 0.001):.0f}/s"
                )
    finally:
        session.terminal.progress("")
        if tally.total:
            session.terminal.print(tally.text(stream, clock.elapsed() - started))
    if not tally.total:
        session.terminal.note("stdin was empty; nothing was sent")
    return 0


async def batches(chunks: AsyncIterator[bytes], delimiter: bytes) -> AsyncIterator[Sequence[Line]]:
    """Lines as they arrive, a bounded number at a time; a last line without a newline counts.

    Raises:
        Invalid: a line lacks the key it needs, or is longer than any record may be.
    """
    rest = b""
    number = 0
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(whole), CLI_BATCH_RECORDS):
            some = whole[start : start + CLI_BATCH_RECORDS]
            parsed, failure = _parsed(some, number, delimiter)
            if parsed:
                yield parsed
            if failure is not None:
                raise failure
            number += len(some)
        if len(rest) > RECORD_BYTES_MAX:
            raise Invalid(f"line {number + 1} is longer than any record may be ({RECORD_BYTES_MAX} bytes)")
    if rest:
        parsed, failure = _parsed([rest], number, delimiter)
        if failure is not None:
            raise failure
        yield parsed


async def read_descriptor(descriptor: int) -> AsyncIterator[bytes]:
    """Data from a file descriptor, as it arrives. A reader thread that is abandoned stays behind, harmlessly."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue(2)

    def pump() -> None:
        data = b"."
        while data:
            data = os.read(descriptor, CLI_READ_BYTES)
            putting = arrived.put(data)
            try:
                asyncio.run_coroutine_threadsafe(putting, loop).result()
            except (RuntimeError, asyncio.CancelledError):  # the command has ended
                putting.close()
                return

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    while data := await arrived.get():
        yield data


@contextlib.asynccontextmanager
async def _opened(session: Session, stream: str, timeout_seconds: float) -> AsyncIterator[Producer]:
    async with contextlib.AsyncExitStack() as stack:
        producer = session.mesh.producer(stream, delivery_timeout_seconds=timeout_seconds)
        try:
            await stack.enter_async_context(producer)
        except NotFound as error:
            raise await missing_among(error, stream, all_streams(session)) from error
        yield producer


def _parsed(lines: Sequence[bytes], before: int, delimiter: bytes) -> tuple[list[Line], Invalid | None]:
    """Lines up to the first that lacks its key, and the error of that one."""
    parsed: list[Line] = []
    for number, line in enumerate(lines, before + 1):
        if not delimiter:
            parsed.append(Line(number, None, line))
            continue
        key, found, value = line.partition(delimiter)
        if not found:
            text = delimiter.decode("utf-8", "replace")
            message = f"line {number} has no {text!r}; the lines before it were sent"
            return parsed, Invalid(message, field="--key-delimiter", remedy="give every line a key, or leave it out")
        parsed.append(Line(number, key, value))
    return parsed, None


async def _send(producer: Producer, lane: str, lines: Sequence[Line], tally: Tally) -> None:
    sends = (producer.send(line.value, key=line.key, lane=lane or None) for line in lines)
    results = await asyncio.gather(*sends, return_exceptions=True)
    for result in results:
        if isinstance(result, Receipt):
            tally.add(result)
    for line, result in zip(lines, results, strict=True):
        if isinstance(result, BraidError):
            result.message = f"line {line.number}: {result.message}"
            raise result
        if isinstance(result, BaseException):
            raise result
