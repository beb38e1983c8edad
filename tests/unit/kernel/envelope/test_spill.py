"""Progress beside commits: records say all of it within their bound; pointers and ASCII claim no more than is true."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.envelope import MetadataKind, decode, encode
from braid.kernel.envelope.ascii_bytes import ascii_bytes_that_fit, pack_ascii, unpack_ascii
from braid.kernel.envelope.spill import Slots, read_spilled, spilled
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import SPILL_BYTES_MAX
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields, SpillPointer
from braid.kernel.progress.tracker import Progress
from tests.support.examples import examples
from tests.unit.kernel.envelope.drawn_progress import progress
from tests.unit.kernel.envelope.test_codec import assert_truthful

PLACE = TopicPartition("braid.logs.live.1", 7)


@given(progress(), st.integers(-5, 400), st.booleans())
@settings(max_examples=examples(100))
def test_a_commit_beside_a_record_is_truthful_and_within_bounds(
    fields: EnvelopeFields, limit_units: int, ascii_only: bool
) -> None:
    record = spilled("g", PLACE, fields, 1)
    pointer = record.at(3, 1 << 40)
    commit = encode(fields, limit_units, ascii_only=ascii_only, spill=pointer)
    assert len(commit.metadata) <= max(limit_units, 0) and (commit.metadata.isascii() or not ascii_only)
    decoded = decode(commit.offset, commit.metadata)
    assert (
        decoded.kind is (MetadataKind.ENVELOPE if commit.metadata else MetadataKind.NONE)
        and decoded.fields == commit.stated
    )
    assert decoded.fields.claims <= fields.claims
    if decoded.fields.spill is not None:
        assert decoded.fields.claims.count + decoded.fields.spill.done == fields.claims.count
        assert read_spilled("g", PLACE, decoded.fields, record.key, record.value) == fields


@given(progress(), st.integers(-5, 120))
def test_ascii_claims_no_more_than_is_true(fields: EnvelopeFields, limit_units: int) -> None:
    assert_truthful(lambda each, units: encode(each, units, ascii_only=True), fields, limit_units)


def scattered(count: int) -> EnvelopeFields:
    """A window of which every second record, at random, is done: nothing is larger to write."""
    tracker = Progress(5)
    offsets = np.arange(5, 5 + count, dtype=np.int64)
    tracker.deliver_many(offsets, offsets)
    tracker.done_many(offsets, np.random.default_rng(1).random(count) < 0.5)
    return tracker.snapshot(epoch=2)


@pytest.mark.parametrize(("count", "fits"), [(500_000, True), (3_000_000, False)])
def test_a_record_says_all_up_to_its_bound_and_less_beyond_it(count: int, fits: bool) -> None:
    fields = scattered(count)
    record = spilled("g", PLACE, fields, 0)
    assert record.whole is fits and len(record.value) <= SPILL_BYTES_MAX
    commit = encode(fields, spill=record.at(0, 1))
    found = read_spilled("g", PLACE, commit.stated, record.key, record.value)
    assert found.claims <= fields.claims and (found == fields) is fits
    assert found.claims.count > 1_000_000 * (not fits)


@given(st.binary(max_size=200))
def test_ascii_bytes_come_back_and_take_what_they_say(data: bytes) -> None:
    text = pack_ascii(data)
    assert text.isascii() and ascii_bytes_that_fit(len(text)) == len(data)
    if data:
        assert unpack_ascii(text) == data


@given(st.text(max_size=12) | st.text("AZaz09-_=", max_size=9))
def test_other_text_is_refused_or_comes_back(text: str) -> None:
    try:
        data = unpack_ascii(text)
    except Invalid:
        return
    assert pack_ascii(data) == text


def test_the_next_slot_is_never_the_one_that_is_pointed_to() -> None:
    slots = Slots()
    for slot in (0, 0, 1, 1, 0):  # a commit of unknown outcome is repeated to the same one
        if slots.next != slot:
            slots.acknowledged(SpillPointer(0, 9, slots.next, 1, 1))
        assert slots.next == slot


@given(st.binary(max_size=400))
def test_any_value_is_survived(value: bytes) -> None:
    stated = EnvelopeFields(base=0, spill=SpillPointer(0, 0, 0, len(value), int.from_bytes(value[:4], "big")))
    with pytest.raises(Invalid):
        read_spilled("g", PLACE, stated, b"braid.logs.live.1/7/0/0/g", value)
