"""The cost of one answer: records, bytes and time, and which of them ended it. Pure but for the clock it is given."""

from braid.kernel.ports import Clock, KafkaRecord
from console.server.limits import MESSAGES_BYTES_MAX, MESSAGES_RECORDS_MAX, MESSAGES_SECONDS
from console.server.messages.logs import Log

_ROW_BYTES = 64  # of a record beside its key and value


class Budget:
    """The costs of one answer so far.

    Attributes:
        records: Looked at, whether they match or not.
        bytes: Of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.elapsed()
        self.records = 0
        self.bytes = 0

    def count(self, record: KafkaRecord) -> None:
        """Notes that a record was looked at."""
        self.records += 1
        self.bytes += len(record.key or b"") + len(record.value or b"") + _ROW_BYTES
        self.bytes += sum(len(name) + len(data or b"") for name, data in record.headers)

    @property
    def spent_ms(self) -> int:
        """The time since the beginning."""
        return round((self._clock.elapsed() - self._began) * 1_000)

    @property
    def seconds_left(self) -> float:
        """The time until the answer is due; not below zero."""
        return max(0.0, self._began + MESSAGES_SECONDS - self._clock.elapsed())

    @property
    def bound(self) -> str:
        """The bound that was reached: `time`, `bytes` or `records`; empty while none was."""
        if not self.seconds_left:
            return "time"
        if self.bytes >= MESSAGES_BYTES_MAX:
            return "bytes"
        return "records" if self.records >= MESSAGES_RECORDS_MAX else ""

    @property
    def overdrawn(self) -> bool:
        """Whether even windows that were begun must stop."""
        return not self.seconds_left or self.bytes >= 2 * MESSAGES_BYTES_MAX

    def room(self, logs: int) -> int:
        """How many records more of each of some logs fit, by the sizes so far; at least one."""
        average = self.bytes / self.records if self.records else 0.0
        by_bytes = (MESSAGES_BYTES_MAX - self.bytes) / average if average else MESSAGES_RECORDS_MAX
        return max(1, int(min(by_bytes, MESSAGES_RECORDS_MAX - self.records) / max(1, logs)))


def first_log(logs: list[Log]) -> Log | None:
    """The log that is read record by record where not even one window fits; None where nothing is left."""
    return next((each for each in logs if each.waits), None)
