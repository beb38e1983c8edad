"""A plain reader of the offset log, record by record, beside which the reader in columns is checked."""

from collections.abc import Sequence

from braid.kafka.memory.log import MemoryRecord
from braid.kafka.offset_log.records import OffsetKey, read_key, read_value
from braid.kafka.offset_log.table import OffsetTable
from braid.kernel.errors import Invalid, Unsupported
from braid.kernel.record_columns import columns_of

Newest = dict[OffsetKey, tuple[int, str, int] | None]


def read_plainly(records: Sequence[MemoryRecord]) -> Newest:
    """Offset, metadata and time of the newest readable commit of each key; None where that is a tombstone."""
    newest: Newest = {}
    for record in records:
        try:
            key = read_key(record.key) if record.key is not None else None
            if key is None:
                continue
            commit = None if record.value is None else read_value(record.value)
        except (Invalid, Unsupported):
            continue
        newest[key] = None if commit is None else (commit.offset, commit.metadata, commit.commit_time_ms)
    return newest


def read_in_columns(records: Sequence[MemoryRecord]) -> tuple[Newest, OffsetTable]:
    """The same by columns, and the table that read them."""
    table = OffsetTable()
    found = table.take(0, columns_of(records, ()))
    texts = [metadata.decode(errors="replace") for metadata in found.metadata]
    numbers = zip(found.offsets.tolist(), texts, found.times_ms.tolist(), strict=True)
    values = [None if gone else value for gone, value in zip(found.gone.tolist(), numbers, strict=True)]
    places = zip(found.pair.tolist(), found.partitions.tolist(), strict=True)
    keys = [OffsetKey(found.pairs[pair].group, found.pairs[pair].topic, partition) for pair, partition in places]
    assert len(set(keys)) == len(keys), "a key came twice"
    return dict(zip(keys, values, strict=True)), table


def differing_commits(records: Sequence[MemoryRecord]) -> list[str]:
    """Where the two readers differ; and whether each record was counted once."""
    plain, (columns, table) = read_plainly(records), read_in_columns(records)
    wrong = [f"{key}: {plain.get(key)} or {columns.get(key)}" for key in plain.keys() | columns.keys()
             if key not in plain or key not in columns or plain[key] != columns[key]]  # fmt: skip
    counts = table.counts
    outcomes = (counts.replaced, counts.commits, counts.tombstones, counts.other, counts.unsupported, counts.damaged)
    if sum(outcomes) != counts.records or counts.records != len(records):
        wrong.append(f"{counts} of {len(records)} records")
    return wrong
