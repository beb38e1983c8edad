"""The filter language: what it means, that it is written as it is read, and that mistakes are pointed at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.filters.grammar import EVERYTHING, All, Comparison, Filter, Not, Some, unparse
from braid.kernel.limits.filters import FILTER_CHARACTERS_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX
from services.dlq.model.filter import NUMBER_FIELDS, TEXT_FIELDS, VOCABULARY, matches, parse_filter
from tests.unit.dlq.letters import letter

LETTER = letter(
    17,
    error="java.lang.IllegalStateException",
    message="Disk FULL on /dev/sda",
    headers=(("region", "eu west"), ("region", "us"), ("and", "x")),
)


def parse(text: str) -> Filter:
    return parse_filter(text, "spec.filter")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("  ", True),
        ("error=IllegalStateException", True),
        ("error=java.lang.IllegalStateException", True),
        ("error=Illegal", False),
        ("error~illegal", True),
        ("error!=ValueError", True),
        ("error!=IllegalStateException", False),
        ("message~'disk full'", True),
        ("message=Disk", False),
        ("group=indexer and lane=live", True),
        ("group=indexer and lane=bulk", False),
        ("lane=bulk or group=indexer", True),
        ("lane=bulk OR group=x", False),
        ("not lane=bulk", True),
        ("not (lane=bulk or group=indexer)", False),
        ("lane=bulk and lane=live or group=indexer", True),
        ("lane=bulk and (lane=live or group=indexer)", False),
        ("key=host-1", True),
        ("key~HOST", True),
        ("id=01ARZ:17", True),
        ("attempts>=5 and attempts<6", True),
        ("attempts>5", False),
        ("partition=0", True),
        ("partition!=0", False),
        ("time>=2026-02-02", True),
        ("time>=2026-02-02T02:40:00.000Z and time<=2026-02-02T03:40:00+01:00", True),
        ("time<2026-02-02T02:40", False),
        ("header.region=us", True),
        ('header.region="eu west"', True),
        ("header.region=de", False),
        ("header.region!=de", True),
        ("header.missing=x", False),
        ("header.missing!=x", True),
        ("header.missing~x", False),
        ("header.and=x", True),
        ("header.'and'=x", True),
        ('message~"\\""', False),
    ],
)
def test_a_filter_means(text: str, found: bool) -> None:
    assert matches(parse(text), LETTER) is found


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("error ValueError", 7, "expected =, != or ~ after `error`"),
        ("eror=x", 1, "expected a field"),
        ("error=", 7, "expected a value for `error`, found the end"),
        ("error=x and", 12, "expected a field"),
        ("error=x group=y", 9, "expected `and`, `or` or the end"),
        ("(error=x", 9, "expected `)` for the `(` in column 1"),
        ("error=x)", 8, "expected `and`, `or` or the end"),
        ("error>x", 6, "expected =, != or ~: `error` is text"),
        ("attempts~3", 9, "`attempts` is a number or time"),
        ("attempts=three", 10, "expected a whole number"),
        ("partition=99999999999999999999", 11, "expected a whole number"),
        ("time>yesterday", 6, "expected a time like"),
        ("time>1969-01-01", 6, "a time before 1970"),
        ("message='open", 9, "the ' is never closed"),
        ("header.=x", 1, "expected a field"),
        ("'error'=x", 1, "expected a field"),
        ("error=a ! b", 9, "'!' has no meaning here"),
        ("not", 4, "expected a field"),
        ("error==x", 7, "expected a value"),
    ],
)
def test_a_mistake_is_pointed_at(text: str, column: int, says: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(text)
    error = refused.value
    assert (error.field, error.metadata["column"]) == ("spec.filter", str(column))
    first, shown, caret = error.message.split("\n")
    assert first.startswith(f"column {column}: ")
    assert says in first
    assert shown[2:] == text
    assert caret[2:] == " " * (column - 1) + "^"


def test_of_a_long_filter_only_the_place_is_shown() -> None:
    text = " and ".join(["error=ValueError"] * 40) + " and\neror=x" + " and group=g" * 40
    with pytest.raises(Invalid) as refused:
        parse(text)
    _, shown, caret = refused.value.message.split("\n")
    assert len(shown) < 130
    assert shown[caret.index("^") :].startswith("eror=x")


def test_a_filter_is_bounded() -> None:
    assert isinstance(parse(" and ".join(["lane=a"] * FILTER_TERMS_MAX)), All)
    parse("(" * (FILTER_DEPTH_MAX - 1) + "lane=a" + ")" * (FILTER_DEPTH_MAX - 1))
    for text in (
        " and ".join(["lane=a"] * (FILTER_TERMS_MAX + 1)),
        "(" * FILTER_DEPTH_MAX + "lane=a" + ")" * FILTER_DEPTH_MAX,
        "not " * 500 + "lane=a",
        f"key={'x' * FILTER_CHARACTERS_MAX}",
    ):
        with pytest.raises(Invalid) as refused:
            parse(text)
        assert refused.value.field == "spec.filter"


TEXTS = st.text(max_size=12)
FIELDS = st.sampled_from(TEXT_FIELDS) | TEXTS.filter(bool).map(lambda name: f"header.{name}")
COMPARISONS = st.builds(Comparison, FIELDS, st.sampled_from(("=", "!=", "~")), TEXTS) | st.builds(
    Comparison,
    st.sampled_from(NUMBER_FIELDS),
    st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
    st.integers(0, 253_402_300_799_999),
)


def nested(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, parts) | st.builds(All, several) | st.builds(Some, several)


FILTERS: st.SearchStrategy[Filter] = st.recursive(COMPARISONS, nested, max_leaves=8)


@given(FILTERS)
def test_what_is_written_is_read_as_the_same(filter: Filter) -> None:
    assert parse(unparse(filter, VOCABULARY)) == filter


@given(st.text(max_size=60) | st.text(alphabet="()=!~<>'\" errornadti.\\", max_size=40))
def test_any_text_is_read_or_refused_in_its_place(text: str) -> None:
    try:
        found = parse(text)
    except Invalid as error:
        assert 1 <= int(error.metadata["column"]) <= len(text) + 1
    else:
        assert parse(unparse(found, VOCABULARY)) == found


@given(FILTERS)
def test_not_is_the_opposite(filter: Filter) -> None:
    assert matches(Not(filter), LETTER) is not matches(filter, LETTER)


def test_everything_is_what_an_empty_filter_says() -> None:
    assert parse("") == EVERYTHING
    assert unparse(EVERYTHING, VOCABULARY) == ""
