"""Figures of the benchmark of zones, and the reasons that void its table."""

import math

import pytest

from bench.zones import PAUSE_AIM_SECONDS, PLAIN, SECONDS, ZONED, Found, Loss, cut, loss, table
from testbed.checkers.zone_ledgers import crossed_part, missing, pauses, slowest
from testbed.members.zone_member import ACKNOWLEDGED, BYTES, HANDLED, Line

FINE = {PLAIN: Loss(3.0, 2.0, 100, 0), ZONED: Loss(0.5, 0.2, 200, 0)}
CUT = {PLAIN: 0.6, ZONED: 0.1}


def sent(name: str, at: float, where: str = "kafka-b") -> Line:
    """An acknowledged record."""
    return Line(ACKNOWLEDGED, at, where, name)


def handled(name: str, at: float) -> Line:
    """A record that was handled."""
    return Line(HANDLED, at, "kafka-b", name)


def counted(at: float, crossed: int, whole: int) -> Line:
    """A count of bytes so far."""
    return Line(BYTES, at, str(crossed), str(whole))


def test_bytes_count_between_two_moments() -> None:
    ledgers = [[counted(0, 90, 90), counted(1, 100, 100), counted(2, 110, 140)], [counted(1, 0, 0), counted(2, 0, 60)]]
    assert crossed_part(ledgers, 1, 2) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="counted no bytes"):
        crossed_part(ledgers, 1.5, 2)
    with pytest.raises(ValueError, match="no bytes"):
        crossed_part([[counted(1, 5, 5), counted(2, 5, 5)]], 1, 2)


def test_a_pause_counts_from_the_kill_and_until_the_end() -> None:
    lines = [sent("b-keyed-1", 9), sent("b-keyed-2", 12), sent("c-keyed-1", 10), sent("c-keyed-2", 19)]
    assert pauses(lines, 10, 20) == {"b-keyed": 8, "c-keyed": 9}


def test_a_record_that_nobody_handles_is_the_slowest() -> None:
    lines = [sent("b-keyed-1", 11), handled("b-keyed-1", 12), sent("b-keyed-2", 11), handled("b-keyed-3", 30)]
    assert slowest(lines, 10, 20, "kafka-a") == 19
    assert slowest([*lines, handled("b-keyed-2", 11.5)], 10, 20, "kafka-a") == 1
    assert math.isinf(slowest(lines, 10, 20, "kafka-b")), "records in the lost zone wait there"


def test_only_records_without_a_handler_are_missing() -> None:
    assert missing([sent("b-keyed-1", 1), sent("b-keyed-2", 1), handled("b-keyed-2", 2)]) == {"b-keyed-1"}


def test_each_producer_elsewhere_is_judged() -> None:
    names = ("b-keyed", "b-keyless", "c-keyed", "c-keyless")
    lines = [sent(f"{name}-{number}", number) for name in names for number in range(10, 20)]
    lines += [handled(line.what, line.at + 0.25) for line in lines]
    found = loss(lines, [*lines, sent("a-keyed-1", 9)], "kafka-a", 9.5, 20)
    assert found == Loss(1.0, 0.25, 41, 1)
    with pytest.raises(AssertionError, match="have sent something"):
        loss([line for line in lines if "c-keyed-" not in line.what], lines, "kafka-a", 9.5, 20)


def test_a_table_with_zones_that_did_their_work_may_be_quoted() -> None:
    made = table(Found(CUT, FINE, CUT), SECONDS, 1.0)
    assert made.verdict == ""
    assert made.facts["fate"] == "of 300 acknowledged records 0 lost"
    assert "60.0% of all plain, 10.0% zoned: -83%" in made.facts.values()
    assert [row.ratio for row in made.rows] == [1.0, None, 6.0, None]


@pytest.mark.parametrize(
    ("found", "seconds", "share", "verdict"),
    [
        (Found(CUT, FINE, CUT), SECONDS, 0.5, "void: the machine gave"),
        (Found(CUT, FINE, CUT), SECONDS - 1, 1.0, "not to be quoted"),
        (Found({PLAIN: 0.6, ZONED: 0.3}, FINE, CUT), SECONDS, 1.0, "void: of 300"),
        (Found({PLAIN: 0.0, ZONED: 0.0}, FINE, CUT), SECONDS, 1.0, "void: of 300"),
        (Found(CUT, FINE, {PLAIN: 0.6, ZONED: 0.6}), SECONDS, 1.0, "void: of 300"),
        (Found(CUT, {**FINE, ZONED: Loss(0.5, 0.2, 200, 1)}, CUT), SECONDS, 1.0, "void: of 300 acknowledged records 1"),
        (Found(CUT, {**FINE, ZONED: Loss(PAUSE_AIM_SECONDS + 1, 0.2, 200, 0)}, CUT), SECONDS, 1.0, "void: a lost zone"),
        (Found(CUT, {**FINE, ZONED: Loss(0.5, math.inf, 200, 0)}, CUT), SECONDS, 1.0, "void: a lost zone"),
    ],
)
def test_a_table_is_void_for_each_missed_aim(found: Found, seconds: float, share: float, verdict: str) -> None:
    assert table(found, seconds, share).verdict.startswith(verdict)


def test_zones_without_a_gain_cut_nothing() -> None:
    assert cut({PLAIN: 0.5, ZONED: 0.5}) == 0.0
    assert cut({PLAIN: 0.0, ZONED: 0.2}) == 0.0
