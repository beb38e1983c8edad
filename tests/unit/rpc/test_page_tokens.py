"""Tokens of pages: every place comes back as it was, and nothing else is taken for one."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import PAGE_TOKEN_CHARACTERS_MAX
from braid.rpc.page_tokens import PageTokens


class Place(NamedTuple):
    """A place in a list of a test."""

    name: str
    number: int


TOKENS = PageTokens(Place)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.builds(Place, st.text(), NUMBERS))
def test_a_place_comes_back_as_it_was(place: Place) -> None:
    read = TOKENS.read(TOKENS.write(place))
    assert (read, type(read)) == (place, Place)


def test_the_first_page_and_the_last_have_no_place() -> None:
    assert TOKENS.read("") is None
    assert TOKENS.write(None) == ""


def test_the_longest_name_of_kafka_fits() -> None:
    place = Place("\x00" * 32_767, 7)
    assert TOKENS.read(TOKENS.write(place)) == place


@pytest.mark.parametrize(
    "token",
    [
        "x", "{}", "[]", "7", "null", '["a"]', '["a",1,2]', '[1,"a"]', '["a","1"]', '["a",true]', '["a",1.0]',
        '["a",NaN]', f'["a",{1 << 63}]', f'["a",{-(1 << 63) - 1}]', '["a",' + "9" * 5_000 + "]", "[" * 9_000,
        '{"name":"a"}',
        '["' + "a" * PAGE_TOKEN_CHARACTERS_MAX + '",1]',
    ],
    ids=range(18),
)  # fmt: skip
def test_what_is_no_token_of_the_list_is_refused(token: str) -> None:
    with pytest.raises(Invalid) as refused:
        TOKENS.read(token)
    assert (refused.value.field, bool(refused.value.remedy)) == ("page_token", True)


@given(st.text() | st.lists(st.text() | st.integers() | st.none()).map(str))
def test_garbage_is_refused_or_is_a_place(token: str) -> None:
    try:
        read = TOKENS.read(token)
    except Invalid:
        return
    assert read is None or TOKENS.read(TOKENS.write(read)) == read


def test_places_of_other_parts_are_refused_at_once() -> None:
    class Wrong(NamedTuple):
        share: float

    with pytest.raises(TypeError, match="Wrong"):
        PageTokens(Wrong)
