"""A host is one witness, its last word counts, and only for a while."""

from math import inf

import pytest

from braid.kernel.limits.registry.health import SEND_REPORT_SECONDS, WITNESS_HOSTS_MAX, WITNESSES_KEPT_MAX
from services.registry.liveness.witnesses import (
    NO_REPORTS,
    SILENCE,
    ClusterReports,
    ReportCounts,
    Reporter,
    Use,
    Users,
    Witnesses,
    users_of,
)


def everyone(witnesses: Witnesses, cluster: str, hosts: int, now: float) -> ReportCounts:
    """The reports on a cluster that this many hosts use, all of which write to it."""
    return witnesses.heard(cluster, Users(hosts, hosts), now).everyone


def test_three_complaints_of_one_host_are_one() -> None:
    witnesses = Witnesses()
    for at in (9.7, 9.8, 9.9):
        witnesses.complains("east", "host-1", at)
    heard = everyone(witnesses, "east", 5, 10.0)
    assert (heard.hosts, heard.failing, heard.reaching, heard.failing_since) == (5, 1, 0, 9.9)
    assert not heard.condemns
    for host in ("host-2", "host-3"):
        witnesses.complains("east", host, 9.9)
    assert everyone(witnesses, "east", 5, 10.0).condemns
    assert everyone(witnesses, "west", 0, 10.0) == NO_REPORTS


def test_a_host_that_also_sees_answers_does_not_fail() -> None:
    witnesses = Witnesses()
    witnesses.complains("east", "host-1", 9.9)
    witnesses.reached("east", "host-1", 9.5)
    heard = everyone(witnesses, "east", 1, 10.0)
    assert (heard.failing, heard.reaching, heard.reached_at, heard.failing_since) == (0, 1, 9.5, inf)
    assert heard.acquits and not heard.condemns


def test_what_is_old_is_forgotten() -> None:
    witnesses = Witnesses()
    witnesses.reached("east", "host-1", 10.0)
    witnesses.complains("east", "host-2", 10.0)
    assert witnesses.complained("east", 10.0 + SEND_REPORT_SECONDS)
    assert everyone(witnesses, "east", 2, 10.0 + SEND_REPORT_SECONDS).acquits
    late = 10.1 + SEND_REPORT_SECONDS
    assert not witnesses.complained("east", late)
    assert everyone(witnesses, "east", 0, late) == NO_REPORTS


def test_an_older_word_changes_nothing() -> None:
    witnesses = Witnesses()
    witnesses.reached("east", "h", 10.0)
    witnesses.reached("east", "h", 3.0)
    assert everyone(witnesses, "east", 1, 10.0).reached_at == 10.0


def since_of(*said: tuple[str, float]) -> float:
    """Since when a host complains that said these: `bad` at a time, or `well` of an answer then, in this order."""
    witnesses, last = Witnesses(), 0.0
    for what, at in said:
        if what == "bad":
            witnesses.complains("east", "h", at)
            last = at
        else:
            witnesses.reached("east", "h", at)
        everyone(witnesses, "east", 1, at)
    return everyone(witnesses, "east", 1, last + 0.1).complaining_since


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
    assert ReportCounts(hosts=1, failing=1).sole and ReportCounts(hosts=2, failing=1).sole
    assert not ReportCounts(hosts=2, failing=2).sole
    assert not ReportCounts(hosts=3, failing=1).sole


@pytest.mark.parametrize(
    ("hosts_min", "share_min", "heard", "condemns"),
    [
        (5, 2 / 3, ReportCounts(hosts=9, failing=4), False),
        (5, 2 / 3, ReportCounts(hosts=9, failing=5, reaching=4), True),
        (5, 0.5, ReportCounts(hosts=4, failing=2), True),
        (5, 1.0, ReportCounts(hosts=4, failing=3), False),
        (1, 2 / 3, ReportCounts(hosts=9, failing=1), True),
        (1, 2 / 3, ReportCounts(hosts=9, failing=1, reaching=1), False),
    ],
)
def test_how_many_must_agree_may_be_declared(
    hosts_min: float, share_min: float, heard: ReportCounts, condemns: bool
) -> None:
    judged = ClusterReports(heard, heard).by(hosts_min, share_min)
    assert judged.everyone.condemns == judged.writers.condemns == condemns
    assert judged.everyone.sole == (hosts_min > 1 and heard.failing == 1)
    assert not NO_REPORTS.sole


# --- those who read


def test_readers_count_among_all_hosts_but_not_among_writers() -> None:
    witnesses = Witnesses()
    witnesses.complains("east", "w", 9.9)
    for host in ("r1", "r2"):
        witnesses.reached("east", host, 9.8, Use.READS)
    witnesses.complains("east", "r3", 9.7, Use.READS)
    found = witnesses.heard("east", Users(6, 2), 10.0)
    counted = [(each.hosts, each.reaching, each.failing) for each in found]
    assert counted == [(6, 2, 2), (2, 0, 1)]
    assert (found.everyone.failing_since, found.writers.failing_since) == (9.7, 9.9)
    assert (found.everyone.reached_at, found.writers.reached_at) == (9.8, -inf)


@pytest.mark.parametrize("fails", [True, False])
def test_a_hosts_producers_speak_for_it_where_they_report(fails: bool) -> None:
    witnesses = Witnesses()
    writes, reads = (witnesses.complains, witnesses.reached) if fails else (witnesses.reached, witnesses.complains)
    writes("east", "h", 9.5, Use.WRITES)
    reads("east", "h", 9.9, Use.READS)
    reads("east", "h", 9.9, Use.READS)  # told twice
    found = witnesses.heard("east", Users(1, 1), 10.0)
    assert found.everyone == found.writers
    assert (found.everyone.hosts, found.everyone.failing, found.everyone.reaching) == (1, int(fails), int(not fails))


def test_recently_silent_producers_leave_the_word_to_consumers() -> None:
    witnesses = Witnesses()
    witnesses.complains("east", "h", 8.0)
    witnesses.reached("east", "h", 9.9, Use.READS)
    assert witnesses.heard("east", Users(1, 1), 9.0).everyone.failing == 1
    found = witnesses.heard("east", Users(1, 1), 9.1 + SEND_REPORT_SECONDS - 0.1)
    assert (found.everyone.reaching, found.everyone.failing) == (1, 0)
    assert (found.writers.hosts, found.writers.reaching, found.writers.failing) == (1, 0, 0)


def test_a_host_that_only_reads_alone_is_a_sole_witness() -> None:
    witnesses = Witnesses()
    for at in (8.0, 9.0, 9.9):
        witnesses.complains("east", "h", at, Use.READS)
    found = witnesses.heard("east", Users(1, 0), 10.0)
    assert found.everyone.sole and found.everyone.condemns and found.everyone.complaining_since == 8.0
    assert not found.writers.condemns


def test_who_says_nothing_counts_among_those_who_use_it() -> None:
    witnesses = Witnesses()
    for host in ("r1", "r2"):
        witnesses.complains("east", host, 9.9, Use.READS)
    assert witnesses.heard("east", Users(2, 0), 10.0).everyone.condemns
    assert not witnesses.heard("east", Users(100, 0), 10.0).everyone.condemns
    assert not witnesses.heard("east", Users(3, 1), 10.0).everyone.condemns


def test_words_belong_to_a_term() -> None:
    witnesses = Witnesses()
    witnesses.complains("east", "h", 9.9, Use.READS)
    assert Witnesses().heard("east", Users(0, 0), 10.0) == SILENCE == ClusterReports(NO_REPORTS, NO_REPORTS)


def test_witnesses_are_bounded() -> None:
    witnesses = Witnesses()
    for number in range(WITNESSES_KEPT_MAX + 10):
        witnesses.complains("east", f"h{number}", 1.0)
    assert everyone(witnesses, "east", 0, 1.0).failing == WITNESSES_KEPT_MAX


# --- principals


MALLORY = "spiffe://test.local/app/mallory"


def test_a_principal_counts_once_whatever_hosts_it_names() -> None:
    """By hosts alone, one caller would condemn a cluster that everybody else reaches."""
    witnesses = Witnesses()
    for number in range(50):
        witnesses.complains("east", Reporter(f"invented-{number}", MALLORY), 9.9)
    for number in range(3):
        witnesses.reached("east", Reporter(f"host-{number}", f"spiffe://test.local/app/{number}"), 9.9)
    heard = everyone(witnesses, "east", 4, 10.0)
    assert (heard.hosts, heard.failing, heard.reaching) == (4, 1, 3)
    assert not heard.condemns


def test_nobody_speaks_as_anothers_host() -> None:
    witnesses = Witnesses()
    witnesses.reached("east", Reporter("host-1", "spiffe://test.local/app/web"), 9.9)
    witnesses.complains("east", Reporter("host-1", MALLORY), 9.95)
    heard = everyone(witnesses, "east", 1, 10.0)
    assert (heard.hosts, heard.failing, heard.reaching) == (1, 0, 1)


@pytest.mark.parametrize(("failing", "counts"), [(2, False), (3, True)])
def test_a_principal_says_what_most_of_its_hosts_say(failing: int, counts: bool) -> None:
    witnesses = Witnesses()
    for number in range(4):
        voice = Reporter(f"host-{number}", "spiffe://test.local/app/web")
        if number < failing:
            witnesses.complains("east", voice, 9.0 + number / 10)
        else:
            witnesses.reached("east", voice, 9.9)
    heard = everyone(witnesses, "east", 1, 10.0)
    assert (heard.hosts, heard.failing, heard.reaching) == (1, int(counts), int(not counts))
    assert heard.failing_since == (9.0 if counts else inf)


def test_several_principals_processes_on_a_host_are_one_witness() -> None:
    witnesses = Witnesses()
    for name in ("web", "job"):
        witnesses.complains("east", Reporter("host-1", f"spiffe://test.local/app/{name}"), 9.9)
    assert everyone(witnesses, "east", 1, 10.0).sole


def test_users_are_counted_as_witnesses_are() -> None:
    spread = {Reporter(f"host-{number}", "spiffe://test.local/app/web") for number in range(3)}
    alone = {Reporter("host-7", "spiffe://test.local/app/job"), Reporter("host-8")}
    assert users_of(spread, alone) == Users(3, 1)
    assert users_of(set(), alone) == Users(2, 0)
    assert users_of({Reporter("host-1"), Reporter("host-2")}, {Reporter("host-2")}) == Users(2, 2)


def test_one_principals_hosts_do_not_take_the_room_of_others() -> None:
    witnesses = Witnesses()
    for number in range(WITNESS_HOSTS_MAX + 10):
        witnesses.complains("east", Reporter(f"invented-{number}", MALLORY), 9.9)
    assert len(witnesses._reports["east"]) == WITNESS_HOSTS_MAX
    witnesses.reached("east", Reporter("host-1", "spiffe://test.local/app/web"), 9.9)
    assert everyone(witnesses, "east", 2, 10.0).reaching == 1
