"""Lag targets: what streams may declare, and the precise error for everything else."""

import pytest

from braid.kernel.errors import Invalid
from braid.kernel.lag_targets import check_availability, check_lag_targets, target_of, target_seconds
from braid.kernel.limits.lagmon.alerts import LAG_TARGETS_MAX

LANES = ("bulk", "dlq", "live")


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5.0), ("10m", 600.0), ("1h", 3600.0), ("30d", 2592000.0)]
)
def test_a_duration_is_read_by_its_unit(text: str, seconds: float) -> None:
    assert target_seconds(text, "f") == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "5", "-5s", "5 s", "1y", "365d", "99ms", "1.5s", "\u0665s", "5s\n"])
def test_what_is_no_possible_target_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_lag_targets({"live": text}, LANES, "spec.lag_target")
    assert caught.value.field == "spec.lag_target.live"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "told"),
    [("fast", "bulk, dlq, live"), ("fast/indexer", "live"), ("live/", "name"), ("live/Two Words", "lower-case")],
)
def test_a_target_of_what_is_not_there_is_refused(name: str, told: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_lag_targets({name: "5s"}, LANES, "spec.lag_target")
    assert caught.value.field == f"spec.lag_target.{name}"
    assert told in f"{caught.value.message} {caught.value.remedy}"


def test_too_many_targets_are_refused() -> None:
    targets = {f"live/g{number}": "5s" for number in range(LAG_TARGETS_MAX + 1)}
    with pytest.raises(Invalid, match="more than"):
        check_lag_targets(targets, LANES, "spec.lag_target")
    check_lag_targets(dict(list(targets.items())[1:]), LANES, "spec.lag_target")


@pytest.mark.parametrize("percent", [0.0, 100.0, -1.0, 89.9, 99.999, float("nan"), float("inf")])
def test_an_availability_without_a_budget_is_refused(percent: float) -> None:
    with pytest.raises(Invalid) as caught:
        check_availability(percent, "spec.availability")
    assert caught.value.field == "spec.availability"


@pytest.mark.parametrize("percent", [None, 90.0, 99.9, 99.99])
def test_an_availability_with_a_budget_is_taken(percent: float | None) -> None:
    check_availability(percent, "spec.availability")


def test_a_group_has_its_own_target_or_that_of_the_lane() -> None:
    targets = {"live": 5.0, "live/slow": 60.0, "bulk/slow": 9.0}
    assert [target_of(targets, lane, group) for lane, group in (("live", "x"), ("live", "slow"), ("bulk", "x"))] == [
        5.0,
        60.0,
        None,
    ]
