"""Every fault inside a cluster of several brokers, under load, on two clusters of three: each promise holds."""

from pathlib import Path

import pytest

from tests.e2e.chaos.plan import BROKERS
from tests.e2e.chaos.run import play

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(1_800)]


async def test_every_promise_holds_when_brokers_die_are_rolled_and_reassigned(tmp_path: Path) -> None:
    report = await play(tmp_path, 1, iter([BROKERS]), brokers=3)
    print(report.to_json())
    assert report.violations == []
    assert report.faults == list(BROKERS)
    assert report.kills == 6
