"""Which clusters one replica reads: none is given up before somebody has it, and none stays unread."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.division import LAG_TAKEOVER_SECONDS, LAG_UNREAD_SECONDS
from services.lagmon.division.owners import Division
from services.lagmon.division.reading import ReadingRule

RANKS = ("a", "b", "c")
DIVISION = Division(frozenset(RANKS), {"east": RANKS})


def reads(rule: ReadingRule, now: float, shown: Mapping[str, bool], *, reading: bool = False) -> bool:
    """Asks the rule about east; `shown` says of each member that reads it whether it does well."""
    by_member = {member: {"east": good} for member, good in shown.items()}
    return "east" in rule.decide(now, DIVISION, by_member, ["east"] if reading else [])


def test_the_first_in_rank_reads_at_once_and_always() -> None:
    rule = ReadingRule("a")
    assert reads(rule, 0.0, {})
    assert reads(rule, 1.0, {"b": True, "c": True})


def test_only_a_good_reading_of_one_before_ends_reading() -> None:
    rule = ReadingRule("b")
    assert reads(rule, 0.0, {}, reading=True)
    assert reads(rule, 1.0, {"a": False, "c": True}, reading=True)
    assert not reads(rule, 2.0, {"a": True}, reading=True)


def test_what_nobody_before_reads_is_read_after_a_moment() -> None:
    rule = ReadingRule("b")
    assert not reads(rule, 10.0, {"c": True})
    assert not reads(rule, 10.0 + LAG_UNREAD_SECONDS - 0.1, {})
    assert reads(rule, 10.0 + LAG_UNREAD_SECONDS, {})


def test_what_one_before_reads_badly_is_read_after_longer() -> None:
    rule = ReadingRule("c")
    assert not reads(rule, 10.0, {"a": False})
    assert not reads(rule, 10.0 + LAG_TAKEOVER_SECONDS - 0.1, {"a": False})
    assert reads(rule, 10.0 + LAG_TAKEOVER_SECONDS, {"b": False})


def test_a_good_reading_ends_the_wait() -> None:
    rule = ReadingRule("b")
    assert not reads(rule, 10.0, {})
    assert not reads(rule, 12.0, {"a": True})
    assert not reads(rule, 12.0 + LAG_UNREAD_SECONDS - 0.1, {})


def test_a_cluster_that_was_gone_is_waited_for_anew() -> None:
    rule = ReadingRule("b")
    assert not reads(rule, 10.0, {})
    rule.decide(11.0, Division(frozenset(RANKS), {}), {}, [])
    assert not reads(rule, 10.0 + LAG_UNREAD_SECONDS, {})


@given(st.lists(st.sets(st.sampled_from(RANKS), min_size=1), min_size=1, max_size=6))
def test_somebody_always_reads_and_in_the_end_exactly_one(lives: list[set[str]]) -> None:
    """Members that live see each other's present state; a reading is good once it lasted a round."""
    rules = {member: ReadingRule(member) for member in RANKS}
    reading: dict[str, bool] = dict.fromkeys(RANKS, False)
    now = 0.0
    for alive in lives:
        members = tuple(member for member in RANKS if member in alive)
        division = Division(frozenset(members), {"east": members})
        reading = {member: reading[member] and member in alive for member in RANKS}
        good = {member for member in members if reading[member]}
        for _ in range(8):
            now += LAG_UNREAD_SECONDS / 2
            shown = {member: {"east": member in good} for member in members if reading[member]}
            had = any(reading.values())
            for member in members:
                mine = ["east"] if reading[member] else []
                decided = rules[member].decide(now, division, {k: v for k, v in shown.items() if k != member}, mine)
                reading[member] = "east" in decided
            assert any(reading.values()) or not had, "it was given up by all"
            good = {member for member in members if reading[member]}
        assert [member for member in members if reading[member]] == [members[0]]
