"""Settings of a lag monitor: where lag over time is kept, and what it may take."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from services.lagmon.config import LagmonSettings


def settings(**fields: object) -> LagmonSettings:
    """Settings of one replica."""
    return LagmonSettings(store="sqlite:///a.db", instance="lagmon-0", **fields)  # type: ignore[arg-type]


def test_each_replica_and_mesh_keeps_for_itself(tmp_path: Path) -> None:
    one = settings(kept_lag=tmp_path).kept_lag_directory
    other = LagmonSettings(store="sqlite:///b.db", instance="lagmon-0", kept_lag=tmp_path).kept_lag_directory
    assert one is not None and other is not None
    assert one.parent == other.parent == tmp_path
    assert one.name.startswith("lagmon-0-") and one != other


def test_without_a_directory_lag_is_kept_in_memory() -> None:
    assert settings().kept_lag_directory is None
    assert settings(kept_lag="").kept_lag_directory is None


@pytest.mark.parametrize("size", [0, -1, (16 << 20) - 1])
def test_a_directory_without_room_is_refused(size: int) -> None:
    with pytest.raises(ValidationError, match="kept_lag_bytes"):
        settings(kept_lag_bytes=size)
