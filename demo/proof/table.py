"""The event store's table against the ledger: every acknowledged record in one row, unchanged, in its producer's order.

Rows are read with the Parquet library from the files the table names; nothing else of the job that wrote them is used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from braid.kernel.errors import NotFound
from demo.proof.evidence import Acked
from pipelines.table.reading import EventTable, open_table

NAMED_MAX = 3


class Row(NamedTuple):
    """A row of the table, as far as the ledger knows of it."""

    identity: str
    digest: str
    key: bytes | None
    sequence: int


@dataclass
class Comparison:
    """A table's rows, compared with a ledger.

    Attributes:
        rows: In the table.
        missing: Acknowledged records without a row.
        twice: Rows beyond the first of a record.
        changed: Rows whose value is not the one that was acknowledged.
        foreign: Rows of no acknowledged record.
        disordered: Rows that come before an earlier one of their key and producer.
    """

    rows: int = 0
    missing: set[str] = field(default_factory=set)
    twice: int = 0
    changed: int = 0
    foreign: int = 0
    disordered: int = 0

    @property
    def equal(self) -> bool:
        """Whether table and ledger say the same."""
        return not (self.missing or self.twice or self.changed or self.foreign or self.disordered)

    def worded(self) -> str:
        """Says in a few words what differs."""
        if self.equal:
            return "equal"
        named = f" ({', '.join(sorted(self.missing)[:NAMED_MAX])})" if self.missing else ""
        return (
            f"{len(self.missing)} missing{named}, {self.twice} twice, {self.changed} changed, {self.foreign} foreign, "
            f"{self.disordered} out of order"
        )


def rows_in(path: Path) -> int:
    """How many rows the table has by now; 0 before there is one."""
    try:
        return open_table(path).count()
    except NotFound:
        return 0


def compare(path: Path, acked: Mapping[str, Acked]) -> Comparison:
    """Reads the whole table and holds it against the ledger's records.

    Raises:
        NotFound: there is no table.
    """
    return judge(_rows(open_table(path)), acked)


def judge(rows: Iterator[Row], acked: Mapping[str, Acked]) -> Comparison:
    """Compares rows, which come by key and within it by producer and sequence, with the ledger's records."""
    found = Comparison(missing=set(acked))
    seen: set[str] = set()
    for _, of_producer in groupby(rows, lambda row: (row.key, row.identity.partition(":")[0])):
        last = -1
        for row in of_producer:
            found.rows += 1
            found.disordered += row.sequence < last
            last = row.sequence
            if row.identity in seen:
                found.twice += 1
            elif row.identity not in acked:
                found.foreign += 1
            else:
                found.changed += row.digest != acked[row.identity].digest
            seen.add(row.identity)
            found.missing.discard(row.identity)
    return found


def _rows(table: EventTable) -> Iterator[Row]:
    for block in table.ordered(("id", "key", "value")):
        columns = (block[name].to_pylist() for name in ("id", "key", "value"))
        for identity, key, value in zip(*columns, strict=True):
            digest = blake2b(value or b"", digest_size=8).hexdigest()
            yield Row(identity, digest, key, int(identity.partition(":")[2]))
