"""Health: a cluster's state follows from evidence alone. A table a verdict, and what holds of every run."""

import pytest

from braid.kernel.limits.registry.health import (
    ALIVE_SLACK_SECONDS,
    FLAP_HOLD_SECONDS,
    FLAP_HOLD_SECONDS_MAX,
    SOLE_WITNESS_SECONDS,
)
from services.registry.health.evidence import Evidence, Look, LookPart, weigh
from services.registry.health.judge import Judgement, hold_seconds, judge
from services.registry.liveness.witnesses import NO_REPORTS, ReportCounts
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)
from services.registry.model.clusters.thresholds import Thresholds

WELL = Judgement(Health.HEALTHY)


def after(judgement: Judgement, *looks: Evidence, hold: float = 0.0) -> Judgement:
    for look in looks:
        judgement = judge(judgement, look, hold_seconds=hold)
    return judgement


def bad(since: float, until: float, **said: object) -> Evidence:
    return Evidence(since, until, False, "no answer", **said)  # type: ignore[arg-type]


def good(at: float, **said: object) -> Evidence:
    return Evidence(at, at, True, **said)  # type: ignore[arg-type]


def every(seconds: float, start: float, end: float, **said: object) -> list[Evidence]:
    """Good evidence at a steady pace."""
    count = round((end - start) / seconds)
    return [good(start + each * seconds, **said) for each in range(count + 1)]


# --- dead


def test_a_bad_look_makes_a_suspect_and_agreement_takes_it_down() -> None:
    suspect = after(WELL, good(0.0), bad(0.25, 0.25))
    assert (suspect.health, suspect.verdict) == (Health.SUSPECT, HealthVerdict.DEAD)
    assert after(suspect, bad(1.0, 1.0), bad(1.5, 1.5)).health is Health.SUSPECT
    assert after(suspect, bad(1.0, 1.0), bad(1.75, 1.75)).health is Health.DOWN


def test_a_hung_cluster_is_judged_from_the_start_of_that_look() -> None:
    assert after(WELL, bad(0.0, 0.75), bad(1.0, 1.75)).health is Health.DOWN


def test_one_good_look_in_between_ends_the_agreement() -> None:
    assert after(WELL, bad(0.0, 0.0), good(1.0), bad(1.25, 1.25), bad(2.5, 2.5)).health is Health.SUSPECT


def test_decisive_evidence_does_not_wait() -> None:
    assert after(WELL, bad(0.0, 0.0), bad(0.3, 0.3, decisive=True)).health is Health.DOWN


def test_a_cluster_that_was_down_needs_ten_seconds_of_success() -> None:
    down = after(WELL, bad(0.0, 2.0))
    assert down.health is Health.DOWN
    recovering = after(down, good(5.0), good(14.9))
    assert recovering.health is Health.DOWN
    assert after(recovering, good(15.0)).health is Health.HEALTHY
    assert after(recovering, bad(14.95, 14.95), good(15.0), good(24.0)).health is Health.DOWN


def test_a_mere_suspicion_clears_sooner() -> None:
    assert after(WELL, bad(0.0, 0.0), good(1.0), good(3.0)).health is Health.HEALTHY


def test_when_a_suspicion_is_over_may_be_declared() -> None:
    doubted = after(WELL, bad(0.0, 0.0), good(1.0))
    assert judge(doubted, good(3.0), Thresholds(cleared_after_seconds=2.5)).health is Health.SUSPECT
    assert judge(doubted, good(1.5), Thresholds(cleared_after_seconds=0.5)).health is Health.HEALTHY


# --- slow


def test_long_slowness_makes_a_cluster_slow_and_a_burst_does_not() -> None:
    burst = after(WELL, *every(0.5, 0.0, 9.5, slow="300 ms"))
    assert (burst.health, burst.verdict) == (Health.SUSPECT, HealthVerdict.SLOW)
    assert after(burst, good(9.75), good(11.8)).health is Health.HEALTHY
    slow = after(burst, good(10.0, slow="300 ms"))
    assert (slow.health, slow.reason) == (Health.SLOW, "300 ms")
    assert after(slow, *every(0.5, 10.5, 20.0)).health is Health.SLOW
    assert after(slow, *every(0.5, 10.5, 20.5)).health is Health.HEALTHY


def test_a_slow_cluster_that_dies_is_down_and_comes_back_slow() -> None:
    slow = after(WELL, *every(0.5, 0.0, 10.0, slow="300 ms"))
    assert after(slow, bad(10.5, 10.5)).health is Health.SLOW
    down = after(slow, bad(10.5, 10.5), bad(12.0, 12.0))
    assert down.health is Health.DOWN
    assert after(down, *every(0.5, 12.5, 22.5, slow="300 ms")).health is Health.SLOW


# --- half-dead


def test_lost_parts_make_it_half_dead_until_all_are_there_again() -> None:
    half = after(WELL, good(0.0, gaps="1 of 4"))
    assert (half.health, half.verdict, half.reason) == (Health.HALF_DEAD, HealthVerdict.HALF_DEAD, "1 of 4")
    assert after(half, bad(1.0, 1.0)).health is Health.HALF_DEAD
    assert after(half, bad(1.0, 1.0), bad(2.5, 2.5)).health is Health.DOWN
    assert after(half, *every(1.0, 1.0, 10.0)).health is Health.HALF_DEAD
    assert after(half, *every(1.0, 1.0, 11.0)).health is Health.HEALTHY


def test_more_gone_than_may_be_is_bad_evidence() -> None:
    evidence = weigh(Look(0.0, 0.1), gaps="3 of 4", too_much_gone=True)
    assert (evidence.good, evidence.verdict, evidence.reason) == (False, HealthVerdict.HALF_DEAD, "3 of 4")
    assert weigh(Look(0.0, 0.1), gaps="1 of 4").good


# --- flapping


@pytest.mark.parametrize(
    ("falls_ms", "seconds"),
    [
        ([], 0.0),
        ([0, 90_000, 180_000], 0.0),
        ([0, 90_000, 180_000, 250_000], FLAP_HOLD_SECONDS),
        ([0, 90_000, 180_000, 250_000, 290_000], 2 * FLAP_HOLD_SECONDS),
        (list(range(0, 300_000, 20_000)), FLAP_HOLD_SECONDS_MAX),
        ([-10_000, 0, 90_000, 180_000], 0.0),
    ],
)
def test_the_price_of_falls_starts_at_four_grows_and_is_bounded(falls_ms: list[int], seconds: float) -> None:
    assert hold_seconds(falls_ms, 299_000, Thresholds()) == seconds
    assert hold_seconds(falls_ms, 299_000, Thresholds(flap_falls=0)) == 0.0


def test_one_that_fell_too_often_is_held_and_then_trusted() -> None:
    down = after(WELL, bad(0.0, 2.0))
    held = after(down, good(3.0), good(13.0), hold=60.0)
    assert (held.health, held.verdict) == (Health.FLAPPING, HealthVerdict.FLAPPING)
    assert after(held, *every(1.0, 14.0, 62.0), hold=60.0).health is Health.FLAPPING
    assert after(held, *every(1.0, 14.0, 63.0), hold=60.0).health is Health.HEALTHY
    assert after(held, bad(14.0, 14.0), bad(15.5, 15.5), hold=60.0).health is Health.DOWN
    again = after(held, bad(14.0, 14.0), *every(1.0, 15.0, 74.0), hold=60.0)
    assert again.health is Health.FLAPPING and after(again, good(75.0), hold=60.0).health is Health.HEALTHY


def test_a_slow_one_is_held_too() -> None:
    slow = after(WELL, *every(0.5, 0.0, 10.0, slow="300 ms"))
    assert after(slow, *every(0.5, 10.5, 20.5), hold=60.0).health is Health.FLAPPING


# --- witnesses

FAILED = Look(10.0, 10.2, LookPart.APPEND, "no answer")


@pytest.mark.parametrize(
    ("reports", "condemned"),
    [
        (ReportCounts(hosts=9, failing=2), False),
        (ReportCounts(hosts=9, failing=3, failing_since=9.5), True),
        (ReportCounts(hosts=9, failing=3, reaching=3, failing_since=9.5), False),
        (ReportCounts(hosts=9, failing=4, reaching=3, failing_since=9.5), True),
        (ReportCounts(hosts=2, failing=1, failing_since=9.5), False),
        (ReportCounts(hosts=2, failing=2, failing_since=9.5), True),
        (ReportCounts(hosts=1, failing=1, failing_since=9.5), True),
        (NO_REPORTS, False),
    ],
)
def test_the_registry_reaches_it_and_its_users_do_not(reports: ReportCounts, condemned: bool) -> None:
    evidence = weigh(Look(10.0, 10.2), reports)
    assert evidence.good is not condemned
    if condemned:
        assert (evidence.since, evidence.verdict) == (9.5, HealthVerdict.PRODUCERS_CUT_OFF)


@pytest.mark.parametrize(
    ("reports", "alive_at"),
    [
        (ReportCounts(hosts=2, reaching=1, reached_at=10.1), 10.1),
        (ReportCounts(hosts=2, reaching=1, failing=1, reached_at=10.1, failing_since=10.0), 10.1),
        (ReportCounts(hosts=3, reaching=1, failing=2, reached_at=10.1, failing_since=10.0), None),
        (ReportCounts(hosts=2, reaching=2, reached_at=9.2), None),  # before it failed first
        (NO_REPORTS, None),
    ],
)
def test_the_registry_does_not_reach_it_and_its_users_do(reports: ReportCounts, alive_at: float | None) -> None:
    evidence = weigh(FAILED, reports, bad_since=9.0)
    assert not evidence.good and evidence.alive_at == alive_at
    assert evidence.verdict is (HealthVerdict.DEAD if alive_at is None else HealthVerdict.REGISTRY_CUT_OFF)


NEWS = {"hosts": 20, "reached_at": 10.1, "failing_since": 9.5}
MANY_READ = ReportCounts(**NEWS, reaching=10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "everyone", "writers", "alive"),
    [
        (LookPart.METADATA, MANY_READ, NO_REPORTS, True),
        (LookPart.APPEND, MANY_READ, NO_REPORTS, False),  # a full disk, or too few copies: fetches are answered
        (LookPart.FETCH, MANY_READ, NO_REPORTS, False),
        (LookPart.APPEND, MANY_READ, ReportCounts(hosts=1, reaching=1, reached_at=10.1), True),
        (LookPart.METADATA, ReportCounts(hosts=5, reaching=1, failing=2, reached_at=10.1), NO_REPORTS, False),
        (
            LookPart.APPEND,
            ReportCounts(hosts=5, reaching=1, failing=2, reached_at=10.1),
            ReportCounts(hosts=1, reaching=1, reached_at=10.1),
            False,
        ),
    ],
)
def test_fetch_answers_acquit_only_where_metadata_failed(
    part: LookPart, everyone: ReportCounts, writers: ReportCounts, alive: bool
) -> None:
    evidence = weigh(Look(10.0, 10.2, part, "no answer"), everyone, writers, bad_since=9.0)
    assert evidence.verdict is (HealthVerdict.REGISTRY_CUT_OFF if alive else HealthVerdict.DEAD)


@pytest.mark.parametrize(
    ("everyone", "writers", "condemned"),
    [
        # readers on ten hosts that fail outweigh writers on two that do not
        (ReportCounts(hosts=12, failing=10, reaching=2), ReportCounts(hosts=2, reaching=2), True),
        # three readers of many do not
        (ReportCounts(hosts=100, failing=3, reaching=50), NO_REPORTS, False),
        # readers on ten hosts that reach it do not make up for writers on three that do not
        (ReportCounts(hosts=13, failing=3, reaching=10), ReportCounts(hosts=3, failing=3), True),
        (ReportCounts(hosts=13, failing=3, reaching=10), ReportCounts(hosts=6, failing=3, reaching=3), False),
        # nor for two, where no others write
        (ReportCounts(hosts=12, failing=2, reaching=10), ReportCounts(hosts=2, failing=2), True),
    ],
)
def test_readers_are_believed_against_it_and_not_for_it(
    everyone: ReportCounts, writers: ReportCounts, condemned: bool
) -> None:
    assert weigh(Look(10.0, 10.2), everyone, writers).good is not condemned


def test_a_sole_writing_host_is_believed_late_though_others_read() -> None:
    writer = ReportCounts(hosts=1, failing=1, failing_since=9.5, complaining_since=4.0)
    evidence = weigh(Look(10.0, 10.2), ReportCounts(hosts=11, failing=1, reaching=10), writer)
    assert evidence.sole_since == 4.0 and "1 of 1 hosts that write to it" in evidence.reason
    both = ReportCounts(hosts=2, failing=2, failing_since=9.5, complaining_since=4.0)
    assert weigh(Look(10.0, 10.2), both, writer).sole_since is None  # somebody agrees


def test_refusals_count_at_once_only_in_a_row_and_with_witnesses() -> None:
    refused = Look(10.0, 10.0, LookPart.METADATA, "refused", refused=True)
    failing = ReportCounts(hosts=1, failing=1, failing_since=9.9)
    assert weigh(refused, failing, refused_looks=2).decisive
    assert not weigh(refused, failing, refused_looks=1).decisive
    assert not weigh(refused, NO_REPORTS, refused_looks=2).decisive
    assert not weigh(refused, ReportCounts(hosts=2, failing=1, failing_since=9.9), refused_looks=2).decisive


def alone(since: float) -> ReportCounts:
    """One host, the only one, which has complained since then, a moment ago last."""
    return ReportCounts(hosts=1, failing=1, failing_since=since, complaining_since=since)


def test_only_one_host_that_alone_uses_it_makes_weak_evidence() -> None:
    assert weigh(Look(10.0, 10.2), alone(9.5)).sole_since == 9.5
    both = ReportCounts(hosts=2, failing=2, failing_since=9.5, complaining_since=4.0)
    assert weigh(Look(10.0, 10.2), both).sole_since is None
    assert weigh(FAILED, alone(9.5)).sole_since is None  # the registry does not reach it either
    gone = weigh(Look(10.0, 10.2), alone(9.5), gaps="3 of 4", too_much_gone=True)
    assert (gone.verdict, gone.sole_since) == (HealthVerdict.HALF_DEAD, None)
    assert weigh(Look(10.0, 10.2), both, gaps="3 of 4", too_much_gone=True).verdict is HealthVerdict.PRODUCERS_CUT_OFF


def complaints(since: float, start: float, end: float) -> list[Evidence]:
    """The evidence of four probes a second while a single host complains."""
    return [bad(at, at, sole_since=since) for at in (start + step / 4 for step in range(round((end - start) * 4) + 1))]


def test_one_host_alone_condemns_after_its_own_time() -> None:
    suspect = after(WELL, *complaints(0.0, 0.0, SOLE_WITNESS_SECONDS - 0.25))
    assert suspect.health is Health.SUSPECT
    assert after(suspect, *complaints(0.0, SOLE_WITNESS_SECONDS, SOLE_WITNESS_SECONDS)).health is Health.DOWN
    late = after(WELL, *complaints(4.0, 0.0, SOLE_WITNESS_SECONDS))  # another host complained until then
    assert late.health is Health.SUSPECT
    assert after(late, *complaints(4.0, 10.25, 14.0)).health is Health.DOWN
    again = after(suspect, good(9.8), *complaints(0.0, 10.0, 11.25))  # silent for a moment, or others saw answers
    assert again.health is Health.SUSPECT
    assert after(again, *complaints(0.0, 11.5, 11.5)).health is Health.DOWN


def test_looks_failing_after_one_complainer_take_the_usual_time() -> None:
    suspect = after(WELL, *complaints(0.0, 0.0, 5.0))
    once = after(suspect, bad(5.25, 5.25))
    assert once.health is Health.SUSPECT
    assert after(once, *complaints(0.0, 5.5, 9.75)).health is Health.SUSPECT
    assert after(once, *complaints(0.0, 5.5, 6.0), bad(6.25, 7.0), bad(7.25, 7.5)).health is Health.SUSPECT
    assert after(once, bad(6.0, 6.5)).health is Health.SUSPECT
    assert after(once, bad(6.0, 6.75)).health is Health.DOWN
    assert after(suspect, bad(5.25, 5.25, decisive=True)).health is Health.DOWN


def test_one_hosts_complaints_take_as_long_as_agreement_does() -> None:
    patient = Thresholds(down_after_seconds=30.0)
    judgement = WELL
    for evidence in complaints(0.0, 0.0, 29.75):
        judgement = judge(judgement, evidence, patient)
    assert judgement.health is Health.SUSPECT
    assert judge(judgement, bad(30.0, 30.0, sole_since=0.0), patient).health is Health.DOWN
    hasty = Thresholds(sole_witness_seconds=3.0)
    assert judge(judge(WELL, bad(0.0, 0.0, sole_since=0.0), hasty), bad(3.0, 3.0, sole_since=0.0), hasty).health is (
        Health.DOWN
    )


def test_a_failing_look_dates_back_to_the_first_recent_complaint() -> None:
    assert weigh(FAILED, ReportCounts(hosts=9, failing=1, failing_since=9.5)).since == 9.5


def test_answers_that_others_see_hold_down_back_until_they_stop() -> None:
    """Looks fail from 0 on; somebody sees answers until 5.0, then nobody does."""
    judgement, down_at = WELL, 0.0
    for step in range(40):
        at = step * 0.25
        seen = min(at, 5.0)
        reports = ReportCounts(hosts=1, reaching=int(at - seen <= 1.0), reached_at=seen)
        evidence = weigh(Look(at, at, LookPart.METADATA, "no answer"), reports, bad_since=judgement.bad_since)
        judgement = judge(judgement, evidence)
        if judgement.health is Health.DOWN:
            down_at = down_at or at
        elif at >= 1.0:
            assert (judgement.health, judgement.verdict) == (Health.SUSPECT, HealthVerdict.REGISTRY_CUT_OFF)
    assert 6.5 - ALIVE_SLACK_SECONDS <= down_at <= 6.75
