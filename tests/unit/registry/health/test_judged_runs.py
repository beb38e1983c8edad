"""Health over runs of any evidence: no state is entered or left without what it needs."""

from hypothesis import example, given
from hypothesis import strategies as st

from braid.kernel.limits.registry.health import (
    SOLE_WITNESS_SECONDS,
)
from services.registry.health.evidence import Evidence
from services.registry.health.judge import Judgement, judge
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)

WELL = Judgement(Health.HEALTHY)


# --- whatever happens


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.booleans()), max_size=60))
def test_down_needs_agreement_to_enter_and_success_to_leave(steps: list[tuple[float, bool]]) -> None:
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


SAID = st.tuples(
    st.floats(0.05, 3.0),
    st.sampled_from(["good", "bad", "alive", "sole", "slow", "gaps"]),
    st.sampled_from([0.0, 60.0]),
)


@given(st.lists(SAID, max_size=80))
@example([*[(2.0, "bad", 0.0)] * 2, *[(1.0, "good", 0.0)] * 5, *[(3.0, each, 0.0) for each in ("slow", "good")]])
def test_no_health_without_its_evidence(steps: list[tuple[float, str, float]]) -> None:
    """Down needs agreement without life; slow needs its time; healthy after trouble needs a run without any symptom."""
    judgement, at = WELL, 0.0
    runs = {"bad": 0.0, "sole": 0.0, "slow": 0.0, "well": 0.0}
    for wait, kind, hold in steps:
        at += wait
        before = judgement
        runs["bad"] = runs["bad"] + wait if kind == "bad" else 0.0
        runs["sole"] = runs["sole"] + wait if kind in ("bad", "sole") else 0.0
        runs["slow"] = 0.0 if kind in ("good", "gaps") else runs["slow"] + wait
        runs["well"] = runs["well"] + wait if kind == "good" else 0.0
        evidence = {
            "good": Evidence(at, at, True),
            "bad": Evidence(at, at, False),
            "alive": Evidence(at, at, False, verdict=HealthVerdict.REGISTRY_CUT_OFF, alive_at=at),
            "sole": Evidence(at, at, False, verdict=HealthVerdict.PRODUCERS_CUT_OFF, sole_since=0.0),
            "slow": Evidence(at, at, True, slow="slow"),
            "gaps": Evidence(at, at, True, gaps="gone"),
        }[kind]
        judgement = judge(judgement, evidence, hold_seconds=hold)
        if judgement.health is before.health:
            continue
        match judgement.health:
            case Health.DOWN:
                assert kind in ("bad", "sole") and runs[kind] >= 1.5 - 1e-9
                assert kind == "bad" or at >= SOLE_WITNESS_SECONDS
            case Health.SLOW:
                assert runs["slow"] >= 10.0 - 1e-9
            case Health.HALF_DEAD:
                assert kind == "gaps"
            case Health.HEALTHY:
                needed = 2.0 if before.health is Health.SUSPECT else max(10.0, hold)
                assert runs["well"] >= needed - 1e-9 or before.health is Health.FLAPPING
            case Health.SUSPECT:
                assert before.health in (Health.HEALTHY, Health.DOWN)
            case Health.FLAPPING:
                assert hold and before.health in (Health.DOWN, Health.SLOW, Health.HALF_DEAD)
