"""Packing: both ways of doing it do the same, for bytes and for what is no packing of any."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel import base32768
from braid.kernel.errors import Invalid

CHARACTERS = st.sampled_from([*base32768.pack(bytes(range(60))), "a", "\ud800", "\U0001f600", "\u3400", "\uffff"])


@given(st.binary(max_size=200))
def test_what_is_packed_reads_back(data: bytes) -> None:
    text = base32768.pack(data)
    assert len(text) == base32768.units_needed(len(data))
    assert base32768.unpack(text) == data


@given(st.binary(max_size=100))
def test_a_number_packs_as_bits_do(data: bytes) -> None:
    assert base32768.pack_number(data) == base32768.pack_bits(data)


@given(st.text(CHARACTERS, max_size=12))
def test_a_number_unpacks_as_bits_do(text: str) -> None:
    assert _outcome(base32768.unpack_number, text) == _outcome(base32768.unpack_bits, text)


def _outcome(unpack: Callable[[str], bytes], text: str) -> bytes | str:
    try:
        return unpack(text)
    except Invalid as error:
        return error.message
