"""Reads one large batch in a process of its own and tells what that cost: `large_reader FILE END [PIECE_BYTES]`.

Prints one line of JSON: records, whether their offsets are 0, 1, 2 …, damaged batches, growth of the resident peak in
bytes. Pieces of other sizes are for controls.
"""

import gc
import json
import sys
from pathlib import Path

from braid.kafka.batches import large
from braid.kafka.batches.batch import Inflater
from braid.kafka.fetching.chunk import Chunk
from braid.kernel.limits.client import FETCH_RECORDS_MAX
from braid.kernel.ports import Isolation, TopicPartition
from testbed.batches import batch
from testbed.members.bomb_reader import forget_peak, resident


def read(data: bytes, end: int) -> tuple[int, bool, int]:
    """Takes all as a consumer does, and keeps nothing."""
    chunk = Chunk(TopicPartition("large", 0), 0, data, (), Isolation.READ_COMMITTED, end=end)
    count, in_order, damaged = 0, True, 0
    while not chunk.used_up:
        if chunk.large:
            chunk.open_large()
        taken = chunk.take_columns(FETCH_RECORDS_MAX, Inflater(), ["braid-id"])
        for part in taken.parts:
            in_order = in_order and part.offsets.tolist() == list(range(count, count + len(part)))
            count += len(part)
        damaged += len(taken.damaged)
    return count, in_order, damaged


def main(path: str, end: int) -> None:
    """Reads valid batches first, so that memory that stays anyway (modules, tables of codecs) is not counted."""
    data = Path(path).read_bytes()
    for codec in range(5):
        read(batch(0, 1_000, codec), 1_000)
    gc.collect()
    forget_peak()
    before = resident("VmRSS")
    found = read(data, end)
    sys.stdout.write(json.dumps([*found, resident("VmHWM") - before]) + "\n")


if __name__ == "__main__":
    if sys.argv[3:]:
        setattr(large, "LARGE_PIECE_BYTES", int(sys.argv[3]))  # noqa: B010 - it is a constant to everybody else
    main(sys.argv[1], int(sys.argv[2]))
