"""Which counts are kept where there is no room for all."""

from dataclasses import replace

from braid.kernel.audit.calls import CallRecorded, CallsLost
from braid.kernel.audit.retention import kept, last_of_each
from tests.unit.kernel.audit.test_counting import ANN, MALLORY, refused


def row(principal: str, number: int) -> CallRecorded:
    return CallRecorded(refused(principal, f"stream/s-{number}", number), 1, number)


def test_of_a_count_that_was_written_again_the_last_is_kept() -> None:
    first = CallRecorded(refused(time_ms=1), 1, 1)
    again = CallRecorded(refused(time_ms=5), 4, 1)
    later = CallRecorded(refused(time_ms=7), 1, 7)
    assert last_of_each([first, later, again]) == [again, later]


def test_one_principal_does_not_push_out_others() -> None:
    old = [row(ANN, number) for number in range(5)]
    flood = [row(MALLORY, number) for number in range(10, 1_000)]
    found = kept([*old, *flood], 100, 0)
    assert len(found) == 100 and found[:5] == old
    assert found[5:] == flood[-95:]


def test_where_all_are_within_their_share_the_oldest_go() -> None:
    rows = [row(f"spiffe://braid.local/app/{number % 50}", number) for number in range(200)]
    assert kept(rows, 100, 0) == rows[-100:]


def test_what_is_too_old_goes_and_losses_are_kept_like_calls() -> None:
    lost = CallsLost(3, 4, 6)
    assert kept([row(ANN, 1), lost, row(ANN, 9)], 100, 5) == [lost, row(ANN, 9)]


def test_a_mutant_that_keeps_the_newest_of_all_is_found() -> None:
    """A plain ring would do the same: the flood takes every place."""
    flood = [row(MALLORY, number) for number in range(10, 1_000)]
    assert row(ANN, 1) not in [row(ANN, 1), *flood][-100:]
    assert row(ANN, 1) in kept([row(ANN, 1), *flood], 100, 0)
    assert replace(row(ANN, 1), count=2) != row(ANN, 1)
