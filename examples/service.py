"""A service that handles records of stream `logs` until SIGTERM: `python examples/service.py [ENDPOINT [RECORDS]]`.

It shows how to treat each kind of error, to limit a handler's time, to commit finished work before the process ends,
and to log why records wait. With RECORDS it ends after that many records.
"""

import asyncio
import contextlib
import logging
import signal
import sys

import braid

_log = logging.getLogger("service")
EXPLAIN_SECONDS = 30.0
RETRY = braid.Retry(
    max_attempts=4,
    backoff_seconds=(0.2, 30.0),
    permanent=(UnicodeDecodeError,),  # another attempt would not mend it: to the dlq lane at once
    retryable=(ConnectionError, TimeoutError),  # not the record's fault: tried for as long as it takes
)


class Service:
    """Handles records, and ends once it has handled enough."""

    def __init__(self, wanted: int | None) -> None:
        self._left = wanted
        self.enough = asyncio.Event()
        self.handled = 0

    async def handle(self, record: braid.Record) -> None:
        """Handles one record, as a service would; `record.id` tells a repeat from the first time."""
        line = (record.value or b"").decode()
        if line.startswith("#"):
            raise braid.Reject("a comment")
        await self.store(record.id, line)
        self.handled += 1
        if self.handled == self._left:
            self.enough.set()

    async def store(self, id: str, line: str) -> None:
        """Stands for a database. If it is unavailable it raises `ConnectionError`, and the consumer waits for it."""
        await asyncio.sleep(0.001)


async def explain(consumer: braid.Consumer) -> None:
    """Logs, for people, what records wait for."""
    while True:
        await asyncio.sleep(EXPLAIN_SECONDS)
        for lease in consumer.explain():
            _log.info("%s", lease)


async def main(endpoint: str | None = None, wanted: int | None = None) -> None:
    """Runs the service until it is stopped."""
    service = Service(wanted)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.enough.set)
    async with (
        braid.connect(endpoint, client_id="example-service") as mesh,
        mesh.consumer(
            ["logs"], group="example-service", concurrency=100, retry=RETRY, handler_timeout_seconds=30.0
        ) as consumer,
    ):
        running = asyncio.create_task(consumer.run(service.handle))
        telling = asyncio.create_task(explain(consumer))
        ended = asyncio.create_task(service.enough.wait())
        await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
        telling.cancel()
        await consumer.close()  # drains, commits, gives its leases back
        await running  # raises what the mesh refused, if it did
    with contextlib.suppress(asyncio.CancelledError):
        await telling
    print(f"handled {service.handled} records")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(next(iter(sys.argv[1:]), None), next(map(int, sys.argv[2:]), None)))
