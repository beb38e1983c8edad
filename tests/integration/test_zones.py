"""Three zones on real processes, each with a cluster, services and applications: bytes, and a zone that is killed."""

from pathlib import Path

import pytest

from bench import zones
from bench.zones import CUT_AIM, PAUSE_AIM_SECONDS, PLAIN, QUICK_SECONDS, ZONED, cut

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(900)]


async def test_three_zones_keep_their_bytes_and_outlive_one(tmp_path: Path) -> None:
    crossed, losses = await zones.play(tmp_path, QUICK_SECONDS)
    print(crossed, losses)
    assert crossed[PLAIN] > 1 / 3, "the control: plainly, bytes cross zones"
    assert cut(crossed) >= CUT_AIM
    zoned = losses[ZONED]
    assert zoned.pause_seconds <= PAUSE_AIM_SECONDS
    assert zoned.record_seconds <= PAUSE_AIM_SECONDS
    assert all(each.acknowledged > 0 and each.lost == 0 for each in losses.values())


async def test_members_fetch_from_the_follower_in_their_rack(tmp_path: Path) -> None:
    parts = await zones.play_wide(tmp_path)
    print(parts)
    assert parts[PLAIN] > 1 / 3, "the control: without a zone, members fetch from leaders"
    assert cut(parts) >= CUT_AIM
