"""Offsets of wall clocks: as people write them, and as a replica reads them."""

import asyncio
from pathlib import Path

import pytest

from braid.host.system import OffsetClock, SystemClock
from braid.kernel.errors import Invalid
from braid.kernel.limits.runtime import CLOCK_OFFSET_SECONDS
from devmesh.processes.wall_clock import offset_file, offset_text, parse_offset, set_off


@pytest.mark.parametrize(
    ("text", "offset_ms"), [("+1h", 3_600_000), ("-8d", -691_200_000), ("+90s", 90_000), ("-5m", -300_000), ("0", 0)]
)
def test_offsets_as_people_write_them(text: str, offset_ms: int) -> None:
    assert parse_offset(text) == offset_ms


@pytest.mark.parametrize("text", ["1h", "+h", "+1w", "+1.5h", "", "+1234567d", "noon"])
def test_what_is_no_offset_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_offset(text)
    assert refused.value.field == "OFFSET" and "+1h" in refused.value.remedy


async def test_a_clock_follows_its_file_and_comes_back(tmp_path: Path) -> None:
    clock, real = OffsetClock(offset_file(tmp_path)), SystemClock()
    for offset_ms in (0, 3_600_000, -691_200_000, 0):
        set_off(tmp_path, offset_ms)
        await asyncio.sleep(CLOCK_OFFSET_SECONDS)
        assert abs(clock.now_ms() - real.now_ms() - offset_ms) < 1_000
    set_off(tmp_path, 0)  # twice is fine


def test_an_offset_for_people() -> None:
    assert [offset_text(each) for each in (0, 3_600_000, -90_000)] == [
        "the machine's",
        "3,600 s ahead of the machine's",
        "90 s behind the machine's",
    ]
