"""Observed ends of a log: bounded, and true about what lies between two looks."""

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.sampling import LAG_END_SAMPLES_MAX
from services.lagmon.model.ends import LogEnds, WrittenBetween


def looks(*pairs: tuple[float, int]) -> LogEnds:
    ends = LogEnds()
    for at, end in pairs:
        ends.observe(end, at)
    return ends


def test_an_offset_was_written_between_the_looks_around_it() -> None:
    ends = looks((1.0, 5), (2.0, 5), (3.0, 9))
    assert ends.written(4) == WrittenBetween(None, 1.0)
    assert ends.written(5) == WrittenBetween(2.0, 3.0)
    assert ends.written(8) == WrittenBetween(2.0, 3.0)
    assert ends.written(9) == WrittenBetween(3.0, None)


def test_a_guess_is_made_only_between_two_looks() -> None:
    ends = looks((10.0, 0), (20.0, 10))
    assert ends.guessed(4) == 15.0
    assert ends.guessed(10) is None
    assert looks((10.0, 5)).guessed(3) is None
    assert LogEnds().guessed(0) is None


def test_a_smaller_end_is_another_log() -> None:
    ends = looks((1.0, 50), (2.0, 60))
    ends.start = 40
    ends.observe(3, 9.0)
    assert (ends.end, ends.start, ends.written(1)) == (3, -1, WrittenBetween(None, 9.0))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50)), min_size=1, max_size=400))
def test_samples_are_bounded_and_stay_true(steps: list[tuple[int, int]]) -> None:
    ends, truth, at, end = LogEnds(), dict[int, int](), 0, 0
    for grown, waited in steps:
        at += waited
        truth |= dict.fromkeys(range(end, end + grown), at)
        end += grown
        ends.observe(end, at)
    assert len(ends._samples) <= LAG_END_SAMPLES_MAX
    for offset, first_seen in truth.items():
        after, by = ends.written(offset)
        assert by is not None and by >= first_seen
        assert after is None or after < first_seen
        guessed = ends.guessed(offset)
        assert guessed is None or (after is not None and after <= guessed <= by)
