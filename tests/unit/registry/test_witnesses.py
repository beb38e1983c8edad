"""A host is one witness, its last word counts, and only for a while."""

from math import inf

import pytest

from braid.kernel.limits_health import SEND_REPORT_SECONDS, WITNESSES_KEPT_MAX
from services.registry.witnesses import NOBODY, Hearsay, Witnesses


def test_three_complaints_of_one_host_are_one() -> None:
    witnesses = Witnesses()
    for at in (9.7, 9.8, 9.9):
        witnesses.complains("east", "host-1", at)
    heard = witnesses.hearsay("east", 5, 10.0)
    assert (heard.hosts, heard.failing, heard.reaching, heard.failing_since) == (5, 1, 0, 9.9)
    assert not heard.condemns
    for host in ("host-2", "host-3"):
        witnesses.complains("east", host, 9.9)
    assert witnesses.hearsay("east", 5, 10.0).condemns
    assert witnesses.hearsay("west", 0, 10.0) == NOBODY


def test_a_host_that_also_sees_answers_does_not_fail() -> None:
    witnesses = Witnesses()
    witnesses.complains("east", "host-1", 9.9)
    witnesses.reached("east", "host-1", 9.5)
    heard = witnesses.hearsay("east", 1, 10.0)
    assert (heard.failing, heard.reaching, heard.reached_at, heard.failing_since) == (0, 1, 9.5, inf)
    assert heard.acquits and not heard.condemns


def test_what_is_old_is_forgotten() -> None:
    witnesses = Witnesses()
    witnesses.reached("east", "host-1", 10.0)
    witnesses.complains("east", "host-2", 10.0)
    assert witnesses.complained("east", 10.0 + SEND_REPORT_SECONDS)
    assert witnesses.hearsay("east", 2, 10.0 + SEND_REPORT_SECONDS).acquits
    late = 10.1 + SEND_REPORT_SECONDS
    assert not witnesses.complained("east", late)
    assert witnesses.hearsay("east", 0, late) == NOBODY


def test_an_older_word_changes_nothing() -> None:
    witnesses = Witnesses()
    witnesses.reached("east", "h", 10.0)
    witnesses.reached("east", "h", 3.0)
    assert witnesses.hearsay("east", 1, 10.0).reached_at == 10.0


def since_of(*said: tuple[str, float]) -> float:
    """Since when a host complains that said these: `bad` at a time, or `well` of an answer then, in this order."""
    witnesses, last = Witnesses(), 0.0
    for what, at in said:
        if what == "bad":
            witnesses.complains("east", "h", at)
            last = at
        else:
            witnesses.reached("east", "h", at)
        witnesses.hearsay("east", 1, at)
    return witnesses.hearsay("east", 1, last + 0.1).complaining_since


@pytest.mark.parametrize(
    ("said", "since"),
    [
        ([("bad", 10.0), ("bad", 11.0), ("bad", 12.0)], 10.0),
        ([("bad", 10.0), ("bad", 10.0), ("bad", 11.0), ("bad", 11.0)], 10.0),  # told twice
        ([("bad", 10.0), ("bad", 13.0), ("bad", 14.0)], 10.0),  # told late, or its process was paused, for a while
        ([("bad", 10.0), ("bad", 13.1), ("bad", 14.0)], 13.1),  # for too long
        ([("bad", 10.0), ("well", 10.2), ("bad", 10.9), ("bad", 11.8)], 10.9),  # an answer in between
        ([("bad", 10.0), ("bad", 12.0), ("well", 11.0), ("bad", 13.0)], 12.0),  # in a pause
        ([("bad", 10.0), ("bad", 10.9), ("well", 10.5), ("bad", 11.8)], 10.9),  # the same, told later
        ([("bad", 10.0), ("bad", 10.9), ("well", 9.5), ("bad", 11.8)], 10.0),  # one of before
        ([("well", 9.9), ("bad", 10.0), ("bad", 10.9), ("bad", 11.8)], 10.0),
    ],
)
def test_the_first_of_unbroken_complaints_is_kept(said: list[tuple[str, float]], since: float) -> None:
    assert since_of(*said) == since


def test_one_of_few_hosts_is_alone_and_one_of_many_is_not() -> None:
    assert Hearsay(hosts=1, failing=1).sole and Hearsay(hosts=2, failing=1).sole
    assert not Hearsay(hosts=2, failing=2).sole
    assert not Hearsay(hosts=3, failing=1).sole
    assert not NOBODY.sole


def test_witnesses_are_bounded() -> None:
    witnesses = Witnesses()
    for number in range(WITNESSES_KEPT_MAX + 10):
        witnesses.complains("east", f"h{number}", 1.0)
    assert witnesses.hearsay("east", 0, 1.0).failing == WITNESSES_KEPT_MAX
