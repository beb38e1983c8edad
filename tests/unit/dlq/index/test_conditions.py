"""An index condition passes everything that its filter does, and is truthful about being exact."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.kernel.filters.grammar import All, Comparison, Filter, Not, Some
from services.dlq.index.conditions import ANYTHING, condition_of
from services.dlq.index.letter_index import DlqPartition, LetterIndex, Reading
from services.dlq.model.filter import matches, parse_filter
from services.dlq.model.letters import Letter
from tests.support.examples import examples
from tests.unit.dlq.letters import letter

PART: Final = DlqPartition("logs", 1, 0)
TEXTS: Final = ("", "a", "A", "a.b", "b", "a\0.b", "a\0", "ß", "SS", "x'--", "%")
LETTERS: Final = [
    letter(
        at, error=text, group=TEXTS[-at], lane=TEXTS[at // 2], id=TEXTS[at // 3], attempts=at % 3, time_ms=1_000 + at
    )
    for at, text in enumerate(TEXTS)
]
COMPARISONS: Final = st.one_of(
    st.builds(
        Comparison,
        st.sampled_from(["error", "group", "lane", "id", "key", "message", "header.h"]),
        st.sampled_from(["=", "!=", "~"]),
        st.sampled_from(TEXTS),
    ),
    st.builds(
        Comparison,
        st.sampled_from(["attempts", "partition", "time"]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.sampled_from([0, 1, 2, 1_003, (1 << 63) - 1]),
    ),
)
FILTERS: Final[st.SearchStrategy[Filter]] = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(All, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Some, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@pytest.fixture
def index(tmp_path: Path) -> LetterIndex:
    made = LetterIndex(tmp_path / "index.db", "mesh")
    made.begin(PART, Reading("east", "braid.logs.dlq.1", b"topic", 0))
    made.write(PART, LETTERS, len(LETTERS))
    return made


def found(index: LetterIndex, filter: Filter) -> set[Letter]:
    """The letters that the index passes."""
    return set(index.scan("logs", None, 100, condition_of(filter)).letters)


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filter=FILTERS)
def test_a_condition_lets_through_what_the_filter_does(index: LetterIndex, filter: Filter) -> None:
    wanted = {each for each in LETTERS if matches(filter, each)}
    let_through = found(index, filter)
    assert wanted <= let_through
    if condition_of(filter).exact:
        assert let_through == wanted
    following = index.following("logs", None, 100, condition_of(filter))
    assert {each.letter for each in following} == let_through


def test_what_the_index_knows_is_not_read_in_vain(index: LetterIndex) -> None:
    filter = parse_filter("error=b and group!=a and (attempts>0 or not id=a) and message~nothing", "filter")
    assert not condition_of(filter).exact
    assert 0 < len(found(index, filter)) < len(LETTERS)
    assert condition_of(parse_filter("not message=x", "filter")) == ANYTHING
