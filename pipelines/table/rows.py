"""Columns of a table, the order of its rows, and merging sorted blocks. Pure: Arrow in, Arrow out.

Rows are ordered by (key, producer, sequence); a missing key comes last, bytes and text compare by byte.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

SOURCE_FIELDS: Final = (
    pa.field("stream", pa.string()),
    pa.field("lane", pa.string()),
    pa.field("cluster", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", "UTC")),
    pa.field("timestamp_type", pa.int32()),
    pa.field("ingested_at", pa.timestamp("us", "UTC")),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    pa.field("id", pa.string()),
)
# What the source gives, and the identity of the row (`identity`).
SCHEMA: Final = pa.schema([*SOURCE_FIELDS, pa.field("producer", pa.string()), pa.field("sequence", pa.int64())])
COLUMNS: Final = tuple(SCHEMA.names)
ORDER: Final = ("key", "producer", "sequence")

OrderKey = tuple[bool, bytes, str, int]


def ordered(table: pa.Table) -> pa.Table:
    """Sorts a table by (key, producer, sequence)."""
    return table.sort_by([(name, "ascending") for name in ORDER])


def order_key(table: pa.Table, row: int) -> OrderKey:
    """Returns a row's sort key, which compares in Python as the columns do."""
    key = table["key"][row].as_py()
    return key is None, key or b"", table["producer"][row].as_py(), table["sequence"][row].as_py()


def merge_sorted(sources: Sequence[Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Merges sources of sorted blocks; holds one block of each.

    Args:
        sources: Each yields blocks that are sorted, and sorted after one another.

    Yields:
        Sorted blocks, sorted after one another.
    """
    iterators = [iter(source) for source in sources]
    blocks = {index: block for index, each in enumerate(iterators) if (block := _next_block(each)) is not None}
    while blocks:
        # Up to the earliest end of a block, every row is at hand.
        bound = min(order_key(block, block.num_rows - 1) for block in blocks.values())
        heads = []
        for index, block in list(blocks.items()):
            count = rows_up_to(block, bound)
            heads.append(block.slice(0, count))
            rest = block.slice(count) if count < block.num_rows else _next_block(iterators[index])
            if rest is None:
                del blocks[index]
            else:
                blocks[index] = rest
        yield ordered(pa.concat_tables(heads))


def rows_up_to(block: pa.Table, bound: OrderKey) -> int:
    """Counts the rows of a sorted block that are not after a bound."""
    low, high = 0, block.num_rows
    while low < high:
        middle = (low + high) // 2
        if order_key(block, middle) <= bound:
            low = middle + 1
        else:
            high = middle
    return low


def out_of_order(blocks: Iterable[pa.Table]) -> Iterator[str]:
    """Describes every row that is out of order or there twice."""
    last: OrderKey | None = None
    for block in blocks:
        for row in range(block.num_rows):
            here = order_key(block, row)
            if last is not None and here <= last:
                yield f"{here} after {last}"
            last = here


def rows_of_bytes(rows: int, size: int, wanted: int) -> int:
    """Returns how many rows make up `wanted` bytes if `rows` have `size`; one at least."""
    return max(1, min(1 << 16, rows * wanted // max(1, size)))


def _next_block(blocks: Iterator[pa.Table]) -> pa.Table | None:
    return next((block for block in blocks if block.num_rows), None)
