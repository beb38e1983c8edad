"""An application's load: numbered records that are sent one after another, and handled."""

import asyncio
from collections import Counter

import braid
from braid.kernel.errors import BraidError
from testbed.patience import until


class NumberedLoad:
    """Counts the records that were sent, acknowledged and handled, and keeps the errors of the others.

    Attributes:
        sent: The number of records sent so far; also the next record's number.
        acknowledged: The numbers of the records that a broker acknowledged.
        handled: How often each record was handled.
        failures: The errors of sends.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = set[int]()
        self.handled = Counter[int]()
        self.failures = list[BraidError]()

    async def send(self, producer: braid.Producer, pause_seconds: float) -> None:
        """Sends until it is cancelled, with a pause after each record."""
        while True:
            number, self.sent = self.sent, self.sent + 1
            try:
                await producer.send(b"%d" % number, key=b"%d" % number)
                self.acknowledged.add(number)
            except BraidError as error:
                self.failures.append(error)
            await asyncio.sleep(pause_seconds)

    async def handle(self, record: braid.Record) -> None:
        """Handles one record."""
        self.handled[int(record.value or b"-1")] += 1

    async def more(self, records: int, seconds: float) -> None:
        """Waits until that many more records than were sent so far have been handled. Fails after some seconds."""
        wanted = self.sent + records

        def done() -> bool:
            return len(self.handled) >= wanted

        await until(done, lambda: f"record {wanted} is handled; failed: {self.failures[:3]}", seconds, poll=0.02)
