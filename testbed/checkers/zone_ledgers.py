"""Figures from the ledgers of applications in zones: bytes across zones, pauses, slow records, lost records. Pure."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from testbed.members.zone_member import ACKNOWLEDGED, BYTES, HANDLED, Line


def crossed_part(ledgers: Iterable[Sequence[Line]], began: float, ended: float) -> float:
    """Returns the part of all bytes between two moments that crossed zones.

    Raises:
        ValueError: a ledger counts nothing in that time.
    """
    crossed = whole = 0
    for lines in ledgers:
        counts = [line for line in lines if line.kind == BYTES and began <= line.at <= ended]
        if len(counts) < 2:
            raise ValueError("a process counted no bytes in that time")
        crossed += int(counts[-1].where) - int(counts[0].where)
        whole += int(counts[-1].what) - int(counts[0].what)
    if not whole:
        raise ValueError("no bytes were sent or fetched in that time")
    return crossed / whole


def pauses(lines: Iterable[Line], began: float, ended: float) -> dict[str, float]:
    """Returns the longest time without an acknowledgement of each producer, `a-keyed` for one, between two moments."""
    times: dict[str, list[float]] = {}
    for line in lines:
        if line.kind == ACKNOWLEDGED and line.at <= ended:
            times.setdefault(line.what.rpartition("-")[0], []).append(line.at)
    since = {name: [began, *(at for at in found if at >= began), ended] for name, found in times.items()}
    return {name: max(b - a for a, b in pairwise(found)) for name, found in since.items()}


def slowest(lines: Sequence[Line], began: float, ended: float, lost: str) -> float:
    """Returns the longest time from a record's acknowledgement by another cluster than the lost one to its handling.

    A record that is not handled counts until the newest line. Infinite where no record was acknowledged.

    Args:
        lines: Ledgers of the processes that were not lost.
        began: Records acknowledged before do not count.
        ended: Nor do those acknowledged later.
        lost: Name of the cluster that was lost.
    """
    handled = {line.what: line.at for line in lines if line.kind == HANDLED}
    newest = max((line.at for line in lines), default=ended)
    sent = [line for line in lines if line.kind == ACKNOWLEDGED and began <= line.at <= ended and line.where != lost]
    return max((handled.get(line.what, newest) - line.at for line in sent), default=math.inf)


def missing(lines: Iterable[Line]) -> set[str]:
    """Returns the records that were acknowledged and never handled."""
    kinds: dict[str, set[str]] = {ACKNOWLEDGED: set(), HANDLED: set()}
    for line in lines:
        if line.kind in kinds:
            kinds[line.kind].add(line.what)
    return kinds[ACKNOWLEDGED] - kinds[HANDLED]
