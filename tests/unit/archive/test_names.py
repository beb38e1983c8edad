"""Names of archived objects, and marks in snapshots: what is written is read; anything else is nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.archive import chain, names
from braid.kernel.ports import HistoryId

GROUP = HistoryId("assigner", "group", "indexer")


@given(st.text(min_size=1, max_size=30))
def test_any_history_has_a_place_of_its_own(id: str) -> None:
    base = names.BaseName(HistoryId("a", "b", id), 7, 1_000, "0" * 16, 1)
    assert names.parse(str(base)) == base
    assert not {".", ".."} & set(str(base).split("/"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b",
        "a/b/c/d/e",
        "a/b/c/notes.txt",
        "a/b/c/.x.part",
        "assigner/group/indexer/00000000000000000001_5_abc_i1.base",
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    assert names.parse(name) is None


def test_names_sort_as_numbers_do() -> None:
    made = [str(names.BaseName(GROUP, sequence, 0, "0" * 16, 1)) for sequence in (9, 10, 100)]
    assert sorted(made) == made


def test_a_mark_is_read_and_nothing_else_is() -> None:
    mark = chain.Mark(512, 1_700_000_000_000, chain.root(GROUP))
    assert chain.Mark.parse(mark.text()) == mark
    assert chain.is_mark(mark.text())
    for other in ("default/r-1", "", "archive-chain:1:2", "archive-chain:x:2:00", f"archive-chain:1:2:{'g' * 64}"):
        assert chain.Mark.parse(other) is None


def test_links_follow_from_all_that_was_before() -> None:
    first, second = chain.links(chain.root(GROUP), 1, [b"a", b"b"])
    assert chain.next_link(first, 2, b"b") == second
    other, same_data = chain.links(chain.root(GROUP), 1, [b"A", b"b"])
    assert len({first, second, other, same_data}) == 4
    assert chain.root(GROUP) != chain.root(HistoryId("assigner", "group", "other"))
