"""Records of several partitions are timed each by itself, also where their offsets are the same."""

from typing import NamedTuple, cast

import pytest

import braid
from bench.harness import lateness
from bench.harness.lateness import Where, send_steadily, slowest_of_100


class Receipt(NamedTuple):
    """The place of a record in a fake receipt."""

    partition: int
    offset: int


class TwoPartitions:
    """A producer whose records go to two partitions in turns."""

    def __init__(self) -> None:
        self._sent = 0

    async def send(self, value: bytes, *, key: bytes | None = None) -> Receipt:
        """Sends a record, as `braid.Producer` does."""
        self._sent += 1
        return Receipt(self._sent % 2, (self._sent - 1) // 2)


async def test_records_at_the_same_offset_of_two_partitions_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "WARM_UP_RECORDS", 0)
    monkeypatch.setattr(lateness, "PACE_PER_S", 1_000_000)
    sent = await send_steadily(cast(braid.Producer, TwoPartitions()), 10)
    assert sent.keys() == {Where(partition, offset) for partition in range(2) for offset in range(5)}


def test_one_of_a_hundred_may_be_later() -> None:
    sent = {Where(partition, offset): 0.0 for partition in range(2) for offset in range(100)}
    handled = {where: 1.0 if where.partition or where.offset else 9.0 for where in sent}
    assert slowest_of_100(sent, handled) == 1.0
    assert slowest_of_100(sent, handled | dict.fromkeys([Where(1, 0), Where(1, 1)], 9.0)) == 9.0
