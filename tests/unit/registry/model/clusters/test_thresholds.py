"""Thresholds a person may declare for one cluster."""

import pytest

from braid.kernel.errors import Invalid
from services.registry.model.clusters.thresholds import BOUNDS, NAMES, Thresholds, check_overrides, thresholds_of


def test_what_is_not_declared_is_usual() -> None:
    usual = Thresholds(look_timeout_seconds=0.5)
    assert thresholds_of({}, usual) == usual
    found = thresholds_of({"slow_factor": 20.0}, usual)
    assert (found.slow_factor, found.look_timeout_seconds) == (20.0, 0.5)


def test_braids_own_numbers_are_within_what_may_be_declared() -> None:
    assert set(BOUNDS) == set(NAMES)
    check_overrides({name: getattr(Thresholds(), name) for name in NAMES})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beyond", [-1.0, 1e9, float("nan"), float("inf")])
def test_a_number_nobody_can_mean_names_its_field(name: str, beyond: float) -> None:
    with pytest.raises(Invalid) as refused:
        check_overrides({name: beyond})
    assert refused.value.field == f"spec.health.{name}" and refused.value.remedy


def test_an_unknown_threshold_is_told_of() -> None:
    with pytest.raises(Invalid) as refused:
        check_overrides({"slowness": 1.0})
    assert "slow_factor" in refused.value.remedy
