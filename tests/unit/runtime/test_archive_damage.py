"""Damage of archived objects: `verified` and lists name what is gone or changed, and no answer is wrong."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from braid.archive import names
from braid.archive.names import BaseName, SegmentName
from braid.kernel.errors import HistoryHole
from braid.kernel.limits.archive import ARCHIVE_EXPIRY_SECONDS
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.runtime.archive.sweeper import Sweeper
from testbed.checkers.past import PastAnswers
from tests.support.virtual_time import run_virtual
from tests.unit.runtime.archived import TOTAL, ArchivingSeat

EVENTS = 6 * SNAPSHOT_EVERY_EVENTS + 96
DAY_MS = 86_400_000
Objects = dict[str, bytes]
Damage = Callable[[Objects, list[SegmentName]], None]


def segments(objects: Objects) -> list[SegmentName]:
    """Names of segments, oldest first."""
    return sorted(name for name in map(names.parse, objects) if isinstance(name, SegmentName))


def removed(objects: Objects, found: list[SegmentName]) -> None:
    """One in the middle."""
    del objects[str(found[1])]


def removed_first(objects: Objects, found: list[SegmentName]) -> None:
    """The oldest, which retention has not come to."""
    del objects[str(found[0])]


def removed_all(objects: Objects, found: list[SegmentName]) -> None:
    """The archive is lost: bases are too."""
    objects.clear()


def swapped(objects: Objects, found: list[SegmentName]) -> None:
    """Two of them, each under the other's name."""
    one, other = str(found[1]), str(found[2])
    objects[one], objects[other] = objects[other], objects[one]


def cut_short(objects: Objects, found: list[SegmentName]) -> None:
    """Truncates an object, as a copy that broke off would."""
    name = str(found[1])
    objects[name] = objects[name][: len(objects[name]) // 2]


def emptied(objects: Objects, found: list[SegmentName]) -> None:
    """Empties an object, as a file system that lost unwritten data would."""
    objects[str(found[1])] = b""


def renamed(objects: Objects, found: list[SegmentName]) -> None:
    """Bytes of one event more than its name tells."""
    name = found[1]
    objects[str(replace(name, last=name.last - 1))] = objects.pop(str(name))


CASES = [
    (removed, [1], "no archive that this replica reaches has them"),
    (removed_first, [0], "the archive does not reach back so far"),
    (removed_all, [0, 1, 2, 3, 4], "the archive does not reach back so far"),
    (swapped, [1, 2], "is damaged"),
    (cut_short, [1], "is damaged"),
    (emptied, [1], "is damaged"),
    (renamed, [1], "no archive that this replica reaches has them|is damaged"),  # what the name leaves out; what it has
]


@pytest.mark.parametrize(("damage", "hurt", "told"), CASES, ids=[damage.__name__ for damage, _, _ in CASES])
def test_what_is_gone_or_changed_is_named_and_no_answer_is_wrong(damage: Damage, hurt: list[int], told: str) -> None:
    async def scenario() -> None:
        answers = PastAnswers()
        seat = await (await ArchivingSeat("a").follow()).lead()
        await seat.grow(EVENTS, answers, every=12)
        live = await seat.value_at(0)
        found = segments(seat.archive.objects)
        damage(seat.archive.objects, found)
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        ranges = joined([(found[at].first, found[at].last) for at in hurt])
        verified = await seat.aggregates.verified(TOTAL, names_only=False)
        assert joined([(gap.first, gap.last) for gap in verified.problems]) == ranges
        listed = await seat.aggregates.listed(TOTAL, 0, 10_000)
        assert joined([(gap.first, gap.last) for gap in listed.gaps]) == ranges
        assert all(re.search(told, gap.reason) for gap in [*verified.problems, *listed.gaps])
        kept = {each.sequence for each in listed.events}
        assert kept == set(range(1, EVENTS + 1)) - {at for first, last in ranges for at in range(first, last + 1)}
        assert await answers.violations(seat.value_at) == []
        assert answers.refused, "moments within what is gone"
        assert await seat.value_at(0) == live, "losing an archive loses no state"

    run_virtual(scenario())


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that follow each other, as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and found[-1][1] == first - 1:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def test_retention_ends_where_told_and_cuts_nothing_younger() -> None:
    async def scenario() -> None:
        old, young = PastAnswers(), PastAnswers()
        seat = await (await ArchivingSeat("a").follow()).lead()
        await seat.grow(4 * SNAPSHOT_EVERY_EVENTS, old, every=12)
        seat.process.clock.skew_ms += 60 * DAY_MS
        await seat.grow(4 * SNAPSHOT_EVERY_EVENTS + 96, young, every=12)
        seat.process.clock.skew_ms += 60 * DAY_MS
        sweeper = Sweeper(seat.shelf, "registry", seat.host.clock, seat.metrics, 90.0, lambda: True)
        await sweeper.sweep()
        await seat.host.clock.sleep(ARCHIVE_EXPIRY_SECONDS)
        await sweeper.sweep()
        seat.aggregates = seat.aggregates_anew()
        await seat.follow()
        assert await young.violations(seat.value_at) == []
        assert young.refused == [], "60 days are less than 90"
        assert await old.violations(seat.value_at) == []
        with pytest.raises(HistoryHole) as told:
            await seat.value_at(old.given[0][0])
        gone = segments(seat.archive.objects)[0].first - 1
        assert gone > SNAPSHOT_EVERY_EVENTS
        assert (told.value.metadata["first"], told.value.metadata["last"]) == ("1", str(gone))
        assert "does not reach back so far" in told.value.message
        assert not (await seat.aggregates.verified(TOTAL, names_only=False)).problems, "that is what was set"
        bases = [name for name in map(names.parse, seat.archive.objects) if isinstance(name, BaseName)]
        assert min(base.sequence for base in bases) == gone, "what is younger is folded from there"

    run_virtual(scenario())
