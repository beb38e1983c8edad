"""Health: a cluster's state follows from evidence alone."""

from hypothesis import given
from hypothesis import strategies as st

from services.registry.clusters import Health
from services.registry.health import Evidence, Judgement, heed_reports, judge

WELL = Judgement(Health.HEALTHY)


def after(judgement: Judgement, *looks: Evidence) -> Judgement:
    for look in looks:
        judgement = judge(judgement, look)
    return judgement


def bad(since: float, until: float) -> Evidence:
    return Evidence(since, until, False, "no answer")


def good(at: float) -> Evidence:
    return Evidence(at, at, True)


def test_the_first_bad_look_makes_a_suspect_and_agreement_takes_it_down() -> None:
    suspect = after(WELL, good(0.0), bad(0.25, 0.25))
    assert suspect.health is Health.SUSPECT
    assert after(suspect, bad(1.0, 1.0), bad(1.5, 1.5)).health is Health.SUSPECT
    assert after(suspect, bad(1.0, 1.0), bad(1.75, 1.75)).health is Health.DOWN


def test_a_hung_cluster_is_judged_from_the_beginning_of_the_look_that_hung() -> None:
    assert after(WELL, bad(0.0, 0.75), bad(1.0, 1.75)).health is Health.DOWN


def test_one_good_look_in_between_ends_the_agreement() -> None:
    assert after(WELL, bad(0.0, 0.0), good(1.0), bad(1.25, 1.25), bad(2.5, 2.5)).health is Health.SUSPECT


def test_a_cluster_that_was_down_needs_ten_seconds_of_success() -> None:
    down = after(WELL, bad(0.0, 2.0))
    assert down.health is Health.DOWN
    recovering = after(down, good(5.0), good(14.9))
    assert recovering.health is Health.DOWN
    assert after(recovering, good(15.0)).health is Health.HEALTHY
    assert after(recovering, bad(14.95, 14.95), good(15.0), good(24.0)).health is Health.DOWN


def test_a_mere_suspicion_clears_sooner() -> None:
    assert after(WELL, bad(0.0, 0.0), good(1.0), good(3.0)).health is Health.HEALTHY


def test_producers_count_alone_only_when_several_agree() -> None:
    look = good(10.0)
    assert heed_reports(look, {"a": 9.5, "b": 9.6}) == look
    assert heed_reports(look, {"a": 9.5, "b": 9.6, "c": 1.0}) == look
    agreed = heed_reports(look, {"a": 9.5, "b": 9.6, "c": 9.7})
    assert not agreed.good and agreed.since == 9.5


def test_a_failing_probe_is_dated_back_to_the_first_recent_report() -> None:
    assert heed_reports(bad(10.0, 10.2), {"a": 9.5, "b": 1.0}).since == 9.5


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.booleans()), max_size=60))
def test_down_is_never_reached_without_agreement_nor_left_without_success(steps: list[tuple[float, bool]]) -> None:
    judgement, at, bad_run, good_run = WELL, 0.0, 0.0, 0.0
    for wait, is_good in steps:
        before = judgement.health
        at += wait
        bad_run = 0.0 if is_good else bad_run + wait
        good_run = good_run + wait if is_good else 0.0
        judgement = judge(judgement, Evidence(at, at, is_good))
        if judgement.health is Health.DOWN and before is not Health.DOWN:
            assert not is_good and bad_run >= 1.5 - 1e-9
        if before is Health.DOWN and judgement.health is not Health.DOWN:
            assert judgement.health is Health.HEALTHY and good_run >= 10.0 - 1e-9
