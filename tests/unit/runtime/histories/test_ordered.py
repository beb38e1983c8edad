"""Histories are sorted once, and anew when there are others."""

from braid.kernel.ports import HistoryId
from braid.runtime.histories.ordered import OrderedHistories


def histories(*names: str) -> dict[HistoryId, None]:
    """Histories of groups, as the loop keeps them."""
    return {HistoryId("assigner", "group", name): None for name in names}


def ids(found: object) -> list[str]:
    """The ids of what was found."""
    assert isinstance(found, list)
    return [each.id for each in found]


def test_a_kind_is_sorted_without_the_others() -> None:
    known = histories("b", "c", "a")
    known[HistoryId("assigner", "other", "aa")] = None
    assert ids(OrderedHistories().of(known, "group")) == ["a", "b", "c"]


def test_another_history_is_seen_and_none_is_sorted_again() -> None:
    ordered, known = OrderedHistories(), histories("b", "c")
    first = ordered.of(known, "group")
    assert ordered.of(known, "group") is first
    known |= histories("a")
    assert ids(ordered.of(known, "group")) == ["a", "b", "c"]
    assert ids(first) == ["b", "c"], "a page under way stays as it is"


def test_a_reload_with_as_many_histories_is_sorted_anew() -> None:
    ordered = OrderedHistories()
    assert ids(ordered.of(histories("a", "b"), "group")) == ["a", "b"]
    assert ids(ordered.of(histories("c", "d"), "group")) == ["c", "d"]
