"""Deadlines that count given time: from the kernel's words to what a test waits."""

import asyncio
import time

import pytest

from testbed import patience
from testbed.patience import SHARE_MIN, Deadline, Ticks, in_time, parse_ticks, share_given, until, wait


def test_the_kernels_line_is_read() -> None:
    assert parse_ticks("cpu  100 5 20 1000 30 1 2 400 7 8") == Ticks(ran=128, withheld=400)


@pytest.mark.parametrize(
    ("ran", "withheld", "share"), [(100, 0, 1.0), (50, 50, 0.5), (0, 0, 1.0), (1, 999, SHARE_MIN), (0, 10, SHARE_MIN)]
)
def test_a_share_is_what_ran_of_what_was_wanted(ran: int, withheld: int, share: float) -> None:
    assert share_given(Ticks(7, 3), Ticks(7 + ran, 3 + withheld)) == share


def test_withheld_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, ticks = [0.0], [Ticks(0, 0)]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(patience, "read_ticks", lambda: ticks[0])
    starved, fair = Deadline(10), Deadline(10)
    now[0], ticks[0] = 11.0, Ticks(25, 75)
    assert (starved.passed, fair.passed) == (False, False)
    assert "11.0 s by the wall, 25% given" in str(starved)
    now[0] = 40.5
    assert (starved.passed, fair.passed) == (True, True)
    ticks[0] = Ticks(1, 999)
    assert (starved.passed, fair.passed) == (False, False)  # a tenth of 40.5 s


async def test_what_never_holds_is_named() -> None:
    with pytest.raises(AssertionError, match=r"not within 0.01 s .*: the moon is blue"):
        await until(lambda: False, "the moon is blue", 0.01, poll=0.001)
    with pytest.raises(AssertionError, match="the moon is blue"):
        wait(lambda: False, "the moon is blue", 0.01, poll=0.001)


async def test_what_holds_ends_the_wait() -> None:
    looks = iter([False, False, True])

    async def look() -> bool:
        return next(looks)

    assert await until(look, "the third look", 5.0, poll=0.001) < 5.0
    assert wait(lambda: True, "at once") < 5.0


async def test_a_result_comes_in_time_or_what_makes_it_is_cancelled() -> None:
    async def soon() -> int:
        await asyncio.sleep(0)
        return 7

    assert await in_time(soon(), "it") == 7
    hanging = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(AssertionError, match=r"not within 0 s .*: the end"):
        await in_time(hanging, "the end", 0.0)
    await asyncio.wait((hanging,))
    assert hanging.cancelled()
