"""Newcomers are placed together: once the last join of their group is over, or after a moment."""

from services.assigner.liveness.member_streams import MemberKey
from services.assigner.liveness.newcomers import Newcomers

FIRST, SECOND, OTHER = MemberKey("indexer", "m1"), MemberKey("indexer", "m2"), MemberKey("billing", "m1")


def test_joins_of_a_group_end_with_that_groups_last_one_alone() -> None:
    newcomers = Newcomers()
    for key in (FIRST, SECOND, OTHER):
        newcomers.begin(key)
    assert not newcomers.end(FIRST)
    assert not newcomers.joining(FIRST)
    assert newcomers.joining(SECOND)
    assert newcomers.end(SECOND)
    assert newcomers.joining(OTHER)


def test_a_member_joining_on_two_streams_joins_until_both_end() -> None:
    newcomers = Newcomers()
    newcomers.begin(FIRST)
    newcomers.begin(FIRST)
    assert not newcomers.end(FIRST)
    assert newcomers.joining(FIRST)
    assert newcomers.end(FIRST)
    assert not newcomers.joining(FIRST)


def test_a_group_waits_from_its_first_newcomer_and_is_taken_once() -> None:
    newcomers = Newcomers()
    newcomers.wait("indexer", 10.0, "m1 is here")
    newcomers.wait("indexer", 10.9, "m2 is here")
    assert newcomers.overdue(10.0) == []
    assert newcomers.overdue(20.0) == ["indexer"]
    assert newcomers.take("indexer") == "m1 is here"
    assert newcomers.take("indexer") is None
    assert newcomers.overdue(20.0) == []
