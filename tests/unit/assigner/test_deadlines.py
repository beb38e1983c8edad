"""Deadlines: judged on the owner's clock, never against anybody for the owner's own stalls."""

from services.assigner.deadlines import Deadlines


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


def test_what_is_forgotten_is_not_missed() -> None:
    deadlines: Deadlines[str] = Deadlines(0.1, 0.0)
    deadlines.set("m", 0.1)
    deadlines.look(0.1)
    deadlines.forget("m")
    assert list(deadlines) == []
    assert deadlines.look(0.2) == []
