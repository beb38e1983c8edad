"""The reading of a cluster that answers: the first good one, else the best of those that are not."""

import numpy as np

from braid.kernel.limits.lagmon.sampling import LAG_STALE_SECONDS
from services.lagmon.division.standing import Standing, chosen

NOW = 100.0
GOOD = Standing(True, NOW - 1.0, NOW - 0.5)
BEHIND = Standing(False, NOW, NOW)
OLD = Standing(True, NOW - 50.0, NOW)  # its commits are
BLIND = Standing(True, NOW, NOW - 40.0)  # its ends are


def test_the_first_good_reading_answers() -> None:
    assert chosen([GOOD, GOOD], NOW) == 0
    for bad in (BEHIND, OLD, BLIND):
        assert not bad.good(NOW)
        assert chosen([bad, GOOD, GOOD], NOW) == 1


def test_a_reading_is_good_until_it_is_stale() -> None:
    reading = Standing(True, NOW, NOW)
    assert reading.good(NOW + LAG_STALE_SECONDS) and not reading.good(np.nextafter(NOW + LAG_STALE_SECONDS, 1e9))
    assert reading._replace(stale_after=9.0).good(NOW + 9.0)


def test_without_a_good_one_a_whole_and_newer_one_answers() -> None:
    assert chosen([BEHIND, OLD], NOW) == 1
    assert chosen([OLD, BLIND], NOW) == 1
    assert chosen([BLIND, OLD], NOW) == 0
    assert chosen([OLD, OLD], NOW) == 0
    assert chosen([BEHIND], NOW) == 0
