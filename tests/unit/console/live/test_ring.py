"""The last events of a page: which are kept, and which are asked for in vain."""

import pytest

from console.server.live.ring import Ring


def test_events_after_a_number_are_given_in_order() -> None:
    ring = Ring(events_max=3)
    for event in (b"1", b"2", b"3"):
        ring.append(event)
    assert ring.after(1) == [b"2", b"3"]
    assert ring.after(3) == []


@pytest.mark.parametrize("number", [-1, 0, 5])
def test_events_that_are_not_kept_are_none(number: int) -> None:
    ring = Ring(events_max=3)
    for event in (b"1", b"2", b"3", b"4"):
        ring.append(event)
    assert ring.after(number) is None


def test_bytes_are_bounded_like_numbers() -> None:
    ring = Ring(events_max=10, bytes_max=10)
    for _ in range(3):
        ring.append(b"12345")
    assert ring.after(1) == [b"12345", b"12345"]
    assert ring.after(0) is None
    ring.append(b"x" * 11)
    assert ring.after(3) is None
    assert ring.after(4) == []
