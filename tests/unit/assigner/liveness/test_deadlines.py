"""Deadlines: judged on the owner's clock, never against anybody for the owner's own stalls."""

from hypothesis import given
from hypothesis import strategies as st

from services.assigner.liveness.deadlines import Deadlines

BEAT = 0.1


def test_a_deadline_is_missed_at_the_second_look_after_it() -> None:
    deadlines: Deadlines[str] = Deadlines(0.025, 0.0)
    deadlines.set("m", 1.0)
    looks = [round(step * 0.025, 3) for step in range(1, 60)]
    missed = [now for now in looks if deadlines.look(now)]
    assert missed == [1.025]
    assert "m" not in deadlines


def test_a_sign_of_life_moves_it() -> None:
    deadlines: Deadlines[str] = Deadlines(0.1, 0.0)
    deadlines.set("m", 0.1)
    assert deadlines.look(0.1) == []
    deadlines.set("m", 0.3)  # read between the two looks
    assert deadlines.look(0.2) == []
    assert deadlines.look(0.3) == []
    assert deadlines.look(0.4) == ["m"]
    assert deadlines.look(0.5) == []


def test_ones_own_stall_counts_against_nobody() -> None:
    deadlines: Deadlines[str] = Deadlines(0.1, 0.0)
    deadlines.set("m", 1.0)
    assert deadlines.look(5.1) == []  # stood still for five seconds
    looks = [round(5.2 + step * 0.1, 1) for step in range(12)]
    (missed,) = [now for now in looks if deadlines.look(now)]
    assert 6.0 <= missed <= 6.2


def test_a_member_suspect_before_a_stall_is_checked_twice_after() -> None:
    deadlines: Deadlines[str] = Deadlines(0.1, 0.0)
    deadlines.set("m", 0.1)
    assert deadlines.look(0.1) == []
    assert deadlines.look(3.2) == []  # what came in these three seconds is not read yet
    assert deadlines.look(3.3) == ["m"]


def test_a_deadline_set_after_a_stall_is_not_moved_by_it() -> None:
    deadlines: Deadlines[str] = Deadlines(0.1, 0.0)
    assert deadlines.look(5.1) == []
    deadlines.set("m", 5.3)
    missed = [now for now in (5.2, 5.3, 5.4, 5.5) if deadlines.look(now)]
    assert missed == [5.4]


def test_what_is_forgotten_is_not_missed() -> None:
    deadlines: Deadlines[str] = Deadlines(0.1, 0.0)
    deadlines.set("m", 0.1)
    deadlines.look(0.1)
    deadlines.forget("m")
    assert list(deadlines) == []
    assert deadlines.look(0.2) == []


class EveryLook(Deadlines[int]):
    """Looks at every deadline every time."""

    def look(self, now: float) -> list[int]:
        self._soonest = float("-inf")
        return super().look(now)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.sampled_from((1, 1, 1, 2, 20))), max_size=80))
def test_looks_that_are_spared_miss_nothing(steps: list[tuple[int, int, int]]) -> None:
    sparing, thorough, now = Deadlines[int](BEAT, 0.0), EveryLook(BEAT, 0.0), 0.0
    for key, beats_ahead, beats in steps:
        for deadlines in (sparing, thorough):
            deadlines.set(key, now + beats_ahead * BEAT)
        now += beats * BEAT
        assert sparing.look(now) == thorough.look(now)
        assert list(sparing) == list(thorough)
