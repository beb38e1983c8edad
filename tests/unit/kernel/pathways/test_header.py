"""The header comes back as it was written, and garbage is told from it without an error."""

from base64 import b64encode
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_FUTURE_MS_MAX,
    PATHWAY_HEADER_BYTES_MAX,
    PATHWAY_WEIGHT_SHIFT_MAX,
)
from braid.kernel.pathways.header import Context, decode_context, encode_context

NOW_MS: Final = 1_790_000_000_000


@given(
    st.builds(
        Context,
        st.integers(1, 2**64 - 1),
        st.integers(1, NOW_MS),
        st.integers(1, NOW_MS + PATHWAY_FUTURE_MS_MAX),
        st.integers(0, PATHWAY_WEIGHT_SHIFT_MAX),
    )
)
def test_a_header_comes_back_as_it_was_written(context: Context) -> None:
    header = encode_context(context)
    assert len(header) <= PATHWAY_HEADER_BYTES_MAX
    assert decode_context(header, NOW_MS) == context


@given(st.binary(max_size=80))
def test_no_bytes_raise(header: bytes) -> None:
    for each in (header, b64encode(header)):
        found = decode_context(each, NOW_MS)
        assert found is None or 0 < found.passed_ms <= NOW_MS + PATHWAY_FUTURE_MS_MAX


@pytest.mark.parametrize(
    "context",
    [
        Context(0, NOW_MS, NOW_MS),
        Context(7, NOW_MS + PATHWAY_FUTURE_MS_MAX + 1, NOW_MS),
        Context(7, NOW_MS, NOW_MS + PATHWAY_FUTURE_MS_MAX + 1),
    ],
)
def test_an_absurd_header_is_garbage(context: Context) -> None:
    assert decode_context(encode_context(context), NOW_MS) is None


@pytest.mark.parametrize("kept", range(28))
def test_a_header_that_was_cut_off_is_garbage(kept: int) -> None:
    header = encode_context(Context(7, NOW_MS, NOW_MS, 1))[:kept]
    assert decode_context(header, NOW_MS) is None


def test_unknown_bytes_at_the_end_are_no_weight() -> None:
    raw = (7).to_bytes(8, "little") + bytes((2, 2))
    for more in (b"\x05", b"\xa5\xa5", b"\xff"):
        assert decode_context(b64encode(raw + more), NOW_MS) == Context(7, 1, 1, 0)
    assert decode_context(b64encode(raw + b"\xa5"), NOW_MS) == Context(7, 1, 1, 5)
