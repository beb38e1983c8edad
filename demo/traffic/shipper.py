"""The producer's process: reads the machine's telemetry and sends it; what a broker acknowledged goes to the ledger.

SIGUSR1 makes it send one damaged observation, SIGTERM ends it once everything sent is acknowledged.
"""

import argparse
import asyncio
import hashlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import braid
from demo.traffic.telemetry import Machine, Observation

STREAM: Final = "telemetry"
POISON_KIND: Final = "poison"
BATCH: Final = 100  # observations handed to the SDK at once
SLICE: Final = 5  # readings taken in one turn of the event loop
BATCHES_IN_FLIGHT_MAX: Final = 60  # then no new readings are taken
_BEHIND_SECONDS_MAX: Final = 0.5  # what was missed for longer is not made up for


class Shipper:
    """Sends observations at a steady rate and notes each acknowledgement.

    Args:
        producer: Of the demo's stream.
        ledger: Descriptor of the ledger's pipe.
        rate_per_s: Observations a second, as long as the brokers keep up.
    """

    def __init__(self, producer: braid.Producer, ledger: int, rate_per_s: int) -> None:
        self._producer = producer
        self._ledger = ledger
        self._seconds_per_batch = BATCH / rate_per_s
        self._free = asyncio.Semaphore(BATCHES_IN_FLIGHT_MAX)
        self._sending: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._poison = False
        self._ending = False

    def poison(self) -> None:
        """The next observation of the bulk lane arrives damaged."""
        self._poison = True

    def end(self) -> None:
        """Takes no new readings."""
        self._ending = True

    async def run(self, observations: Iterator[Observation]) -> None:
        """Ships until `end`, then waits for the acknowledgements. Raises what a send raised."""
        due = time.monotonic()
        while not self._ending and self._failure is None:
            batch = await self._read(observations)
            await self._free.acquire()
            task = asyncio.ensure_future(self._ship(self._damaged(batch)))
            self._sending.add(task)
            task.add_done_callback(self._shipped)
            due = max(due + self._seconds_per_batch, time.monotonic() - _BEHIND_SECONDS_MAX)
            await asyncio.sleep(due - time.monotonic())
        if self._sending:
            await asyncio.wait(self._sending)
        if self._failure is not None:
            raise self._failure

    async def _read(self, observations: Iterator[Observation]) -> list[Observation]:
        """Takes a batch of readings, in slices short enough to keep the loop responsive."""
        batch: list[Observation] = []
        while len(batch) < BATCH:
            batch += itertools.islice(observations, SLICE)
            await asyncio.sleep(0)
        return batch

    async def _ship(self, batch: Sequence[Observation]) -> None:
        outgoing = [braid.Outgoing(each.value, each.key, each.lane) for each in batch]
        receipts = await self._producer.send_many(outgoing)
        lines = ledger_lines(batch, receipts, time.monotonic_ns())
        while lines:
            lines = lines[os.write(self._ledger, lines) :]

    def _shipped(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        self._free.release()
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    def _damaged(self, batch: list[Observation]) -> list[Observation]:
        """Cuts one observation of the bulk lane in half, when that was asked for."""
        for at, observation in enumerate(batch):
            if self._poison and observation.lane == "bulk":
                self._poison = False
                half = observation.value[: len(observation.value) // 2]
                batch[at] = observation._replace(kind=POISON_KIND, value=half)
        return batch


def ledger_lines(batch: Iterable[Observation], receipts: Iterable[braid.Receipt], at_ns: int) -> bytes:
    """Returns the ledger's lines for acknowledged observations, a line each.

    A line has the record's id, cluster, lane, when its acknowledgement was known (monotonic nanoseconds), its kind, and
    a digest of its value that tells distinct observations apart.
    """
    lines = [
        f"{receipt.id} {receipt.cluster} {receipt.channel.lane} {at_ns} {each.kind} {_digest(each.value)}\n"
        for each, receipt in zip(batch, receipts, strict=True)
    ]
    return "".join(lines).encode()


def endless(machine: Machine) -> Iterator[Observation]:
    """Sweep after sweep."""
    while True:
        yield from machine.sweep()


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=8).hexdigest()


async def ship(options: argparse.Namespace) -> None:
    """Opens the pipe and the producer, and ships until told to end."""
    ledger = os.open(options.ledger, os.O_WRONLY)  # waits for the ledger to open its side
    machine = Machine(options.logs)
    async with braid.connect(options.endpoint, client_id="shipper") as mesh, mesh.producer(STREAM) as producer:
        shipper = Shipper(producer, ledger, options.rate)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, shipper.end)
        loop.add_signal_handler(signal.SIGUSR1, shipper.poison)
        await shipper.run(endless(machine))
    os.close(ledger)


def main(arguments: list[str]) -> None:
    """Entry of `python -m demo.traffic.shipper`."""
    parser = argparse.ArgumentParser(prog="demo.traffic.shipper")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--ledger", type=Path, required=True, help="the ledger's pipe")
    parser.add_argument("--rate", type=int, required=True, help="observations a second")
    parser.add_argument("logs", nargs="*", help="patterns of log files to ship too")
    asyncio.run(ship(parser.parse_args(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
