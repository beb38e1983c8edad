"""Progress as commit metadata, beside Parallel Consumer's format: how much of it fits, and what it costs: `python -m
bench.envelope`.

A window is offsets from the first undone to the last done, each undone by chance, or in bursts. The measure is the
longest beginning of one long window that fits into a broker's 4,096 units. The peer's format (bit set or run lengths,
with or without zstd, in base64) is rebuilt here with NumPy from its source. So its size is comparable, its time is not
that of the peer's Java. It fills all of the units here; the real one takes no more records of a partition once three
quarters are full. Nothing is sent.
"""

import asyncio
import base64
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from bench.harness.arguments import Asked, asked
from bench.harness.contest import Contestant, play
from bench.harness.rounds import rows, verdict
from bench.harness.tables import Table, made_with
from braid.kernel.envelope import EncodedCommit, decode, encode
from braid.kernel.limits.envelope import ENVELOPE_UNITS_DEFAULT, ENVELOPE_UNITS_MAX
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges

PEER: Final = "Parallel Consumer's format, written"
AGAIN: Final = "Parallel Consumer's format, again"
READ: Final = "braid envelope, read"
CUT: Final = "braid envelope, written, cut to 4,096"
CUT_READ: Final = "braid envelope, read, cut to 4,096"
WINDOW: Final = 1_000_000  # of which one in a hundred is undone
UNDONE: Final = 0.01
LONGEST: Final = 12_000_000  # that is tried
BASE: Final = 1_000_000_000
SEED: Final = 7
AIM: Final = 2.5
_SHORT_MAX: Final = (1 << 15) - 1
_SMALL_BYTES: Final = 200  # the peer compresses nothing while one of its codes is smaller
_MAGIC_BYTES: Final = 1
_Bits = NDArray[np.bool_]


class Pattern(NamedTuple):
    """How offsets are left undone.

    Attributes:
        name: For the table.
        made: A window of so many offsets.
        aim: Offsets that are to fit; 0 where none are named.
    """

    name: str
    made: Callable[[int], _Bits]
    aim: int


def by_chance(undone: float) -> Callable[[int], _Bits]:
    """Each offset is undone with this chance."""
    return lambda size: np.random.default_rng(SEED).random(size) >= undone


def in_bursts(size: int) -> _Bits:
    """Undone ones follow each other, 30 on average, then 3,000 that are done."""
    dice = np.random.default_rng(SEED)
    runs = np.stack([dice.geometric(1 / 30, size // 1_000), dice.geometric(1 / 3_000, size // 1_000)], axis=1).ravel()
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs)[:size]


PATTERNS: Final = (
    Pattern("50 % undone", by_chance(0.5), 60_000),
    Pattern("10 % undone", by_chance(0.1), 128_000),
    Pattern("1 % undone", by_chance(0.01), 750_000),
    Pattern("0.1 % undone", by_chance(0.001), 5_200_000),
    Pattern("bursts of 30 in 3,000", in_bursts, 0),
)


def window(done: _Bits) -> _Bits:
    """A window has its base, which is undone, at its start, and ends with what is done."""
    done = done.copy()
    done[0], done[-1] = False, True
    return done


def fields_of(done: _Bits) -> EnvelopeFields:
    """The fields that a tracker would have for a window."""
    edges = np.flatnonzero(done[1:] != done[:-1]) + 1
    return EnvelopeFields(base=BASE, done=Ranges.of_edges([*(edges + BASE).tolist(), BASE + len(done)]))


def by_braid(done: _Bits, units: int) -> EncodedCommit:
    """A window's commit."""
    return encode(fields_of(done), units)


def by_peer(done: _Bits) -> str:
    """A window's metadata: the smallest of what the peer tries (`OffsetSimultaneousEncoder`), in base64."""
    bits = np.packbits(done, bitorder="little").tobytes() + b"\x00"
    found = [len(done).to_bytes(4, "big") + bits]
    if len(done) <= _SHORT_MAX:
        found.append(len(done).to_bytes(2, "big") + bits)
    edges = np.flatnonzero(done[1:] != done[:-1]) + 1
    runs = np.diff(np.concatenate(([0], edges, [len(done)])))
    found.append(runs.astype(">i4").tobytes())
    if int(runs.max()) <= _SHORT_MAX:
        found.append(runs.astype(">i2").tobytes())
    if min(map(len, found)) >= _SMALL_BYTES:
        found += [zstandard.ZstdCompressor(write_content_size=False).compress(each) for each in found]
    return base64.b64encode(bytes(_MAGIC_BYTES) + min(found, key=len)).decode("ascii")


def longest(fits: Callable[[int], bool], most: int) -> int:
    """The largest window that fits, to a ten-thousandth of it."""
    low, high = 2, most
    while high - low > max(1, low // 10_000):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def fitting(pattern: Pattern, most: int) -> tuple[int, int]:
    """How many offsets 4,096 units hold, of Braid's envelope and of the peer's format."""
    done = pattern.made(most)

    def holds(size: int) -> bool:
        return not by_braid(window(done[:size]), ENVELOPE_UNITS_DEFAULT).truncated

    def peer_holds(size: int) -> bool:
        return len(by_peer(window(done[:size]))) <= ENVELOPE_UNITS_DEFAULT

    return longest(holds, most), longest(peer_holds, most)


def told(pattern: Pattern, most: int) -> str:
    """One line of it."""
    own, peer = fitting(pattern, most)
    aim = f"{pattern.aim:,} and " if pattern.aim else ""
    return f"{own:,} offsets fit, {peer:,} in Parallel Consumer's format: {own / peer:.2f} × (aim >= {aim}{AIM:g} ×)"


class Contest:
    """A number of commits of one window."""

    def __init__(self, commits: int, size: int) -> None:
        done = window(by_chance(UNDONE)(size))
        self._commits = commits
        self._done, self._fields = done, fields_of(done)
        self._whole = encode(self._fields, ENVELOPE_UNITS_MAX)
        self._cut = encode(self._fields, ENVELOPE_UNITS_DEFAULT)
        assert decode(*self._whole[:2]).fields.done == self._fields.done

    def contestants(self) -> dict[str, Contestant]:
        """By name."""
        return {
            PEER: lambda: self._again(lambda: by_peer(self._done)),
            AGAIN: lambda: self._again(lambda: by_peer(self._done)),
            "braid envelope, written": lambda: self._again(lambda: encode(self._fields, ENVELOPE_UNITS_MAX)),
            READ: lambda: self._again(lambda: decode(*self._whole[:2])),
            CUT: lambda: self._again(lambda: encode(self._fields, ENVELOPE_UNITS_DEFAULT)),
            CUT_READ: lambda: self._again(lambda: decode(*self._cut[:2])),
        }

    async def _again(self, call: Callable[[], object]) -> int:
        for _ in range(self._commits):
            call()
        return self._commits


async def contest(how: Asked) -> Table:
    """Plays the rounds, then looks what fits."""
    size, most = (10_000, 50_000) if how.quick else (WINDOW, LONGEST)
    samples = await play(Contest(how.units, size).contestants(), how.rounds)
    found = rows(samples, PEER, "cpu", without_peer=(READ, CUT, CUT_READ))
    facts = {
        "work": f"{how.units:,} commits of a window of {size:,}, {UNDONE:.0%} undone by chance, which takes "
        f"{ENVELOPE_UNITS_MAX:,} units or fewer; cut: what fits {ENVELOPE_UNITS_DEFAULT:,} is found first",
        "peer": "Parallel Consumer's format as NumPy writes it; its own code was not run",
        **{each.name: told(each, most) for each in PATTERNS},
    }
    return Table("envelope", "commit", "cpu", verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark; 1 when the run is void."""
    how = asked(__doc__, units=100, quick_units=5)
    table = asyncio.run(contest(how))
    table.publish(how.directory)
    return int(bool(table.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
