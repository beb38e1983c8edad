"""All of the chaos catalogue, under load, a mesh for each ground: each promise holds."""

from pathlib import Path

import pytest

from tests.e2e.chaos.commit import commit_hash, seed_from
from tests.e2e.chaos.plan import GROUNDS, Ground, deck
from tests.e2e.chaos.run import play

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(3_600)]


@pytest.mark.parametrize("ground", GROUNDS, ids=[each.name for each in GROUNDS])
async def test_every_promise_holds_under_the_whole_catalogue(ground: Ground, tmp_path: Path) -> None:
    seed = seed_from(commit_hash())
    faults = deck(seed, ground)
    report = await play(tmp_path, seed, iter([faults]), ground=ground)
    print(report.to_json())
    assert report.violations == []
    assert report.faults == [name for name in faults if name not in report.not_played]
