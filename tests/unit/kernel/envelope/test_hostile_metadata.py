"""Metadata that is no envelope, or a damaged one: it costs bounded memory and claims nothing."""

import tracemalloc
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.kernel.envelope import PREFIX, Decoded, MetadataKind, decode, encode
from braid.kernel.envelope.base46341 import bytes_that_fit, pack
from braid.kernel.envelope.body import write_body
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import ENVELOPE_UNITS_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress
from tests.support.examples import examples
from tests.unit.kernel.envelope.drawn_progress import OFFSET_MAX, progress, units

# --- foreign, damaged, hostile


@pytest.mark.parametrize("metadata", ["", None])
def test_no_metadata(metadata: str | None) -> None:
    assert decode(7, metadata) == Decoded(MetadataKind.NONE, EnvelopeFields(base=7))
    assert decode(-1, metadata).fields.base == 0


@pytest.mark.parametrize(
    "metadata",
    [
        "committed by hand",
        "AgAAAXmUvMzX",
        "eyJhIjoxfQ==",
        "ob/vMAAAAA",
        "b1",
        "b:",
        "B1:x",
        "bx:",
        "{}",
        "\x00\x01",
        "㐀㐀",
    ],
)
def test_other_tools_metadata_is_recognised(metadata: str) -> None:
    decoded = decode(42, metadata)
    assert (decoded.kind, decoded.fields) == (MetadataKind.FOREIGN, EnvelopeFields(base=42))


def sealed(offset: int, body: bytes) -> str:
    """Metadata with a right checksum around any body."""
    return PREFIX + pack(zlib.crc32(offset.to_bytes(8, "big") + body).to_bytes(4, "big") + body)


def test_unknown_fields_fall_back_to_the_offset_unless_optional() -> None:
    assert decode(9, "b2:anything").kind is MetadataKind.UNSUPPORTED
    body = write_body(EnvelopeFields(base=9, epoch=4))
    optional = bytes([11 << 3 | 2, 2, 1, 1, 12 << 3, 5, 13 << 3 | 5, 0, 0, 0, 0, 0x81, 0x08 | 1, *bytes(8)])
    assert decode(9, sealed(9, body + optional)) == Decoded(MetadataKind.ENVELOPE, EnvelopeFields(base=9, epoch=4))
    critical = body + bytes([0x80 | (64 << 3 & 0x7F), 64 << 3 >> 7, 1])
    decoded = decode(9, sealed(9, critical))
    assert (decoded.kind, decoded.fields) == (MetadataKind.UNSUPPORTED, EnvelopeFields(base=9))
    assert "critical field 64" in decoded.reason


@pytest.mark.parametrize("coder", [4, 5, 255])
def test_reserved_coders_are_refused(coder: int) -> None:
    done = bytes([coder, 2, 1])
    inner = bytes([4 << 3 | 2, len(done)]) + done
    decoded = decode(3, sealed(3, bytes([5 << 3 | 2, len(inner)]) + inner))
    assert (decoded.kind, decoded.fields) == (MetadataKind.UNSUPPORTED, EnvelopeFields(base=3))
    assert f"coder {coder} " in decoded.reason


@pytest.mark.parametrize(
    "body",
    [
        bytes([0x08]),  # a number cut off
        bytes([0x0A, 5, 1]),  # bytes cut off
        bytes([0x0B]),  # a group
        bytes([0x00, 0x00]),  # field number 0
        bytes([0x0A, 1, 1]),  # an epoch that is bytes
        bytes([0x28, 1]),  # a cursor that is a number
        bytes([0x08, *b"\xff" * 9, 0x02]),  # more than 64 bits
        bytes([0x08, *b"\xff" * 9, 0x01]),  # an epoch beyond int64
        bytes([0x2A, 2, 0x08, 2]),  # a main cursor elsewhere
        bytes([0x2A, 5, 0x22, 3, 2, 0, 1]),  # done ranges that touch the base
        bytes([0x2A, 6, 0x22, 4, 2, 2, 1, 1]),  # runs that end in a gap
        bytes([0x2A, 7, 0x22, 5, 2, 2, 1, 0, 1]),  # an empty gap
        bytes([0x2A, 14, 0x22, 12, 2, 2, *b"\xff" * 9, 0x01]),  # a run beyond all offsets
        bytes([0x32, 3, 2, 1, 1]),  # a rejected offset below 0 (base is 0)
        bytes([0x32, 3, 2, 4, 1]),  # a rejected offset that is not done
        bytes([0x42, 2, 0, 1]),  # attempts not in triples
        bytes([0x42, 3, 0, 0, 1]),  # an empty run of attempts
        bytes([0x42, 7, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1]),  # four billion attempts
        bytes([0x4A, 3, 1, 2, 3]),  # a fingerprint cut off
        bytes([0x52, 2, 0x10, 1]),  # a lane without a name
        bytes([0x52, 5, 0x0A, 3, *b"A b"]),  # a lane out of form
        bytes([0x2A, 0] * 17),  # too many cursors
    ],
)
def test_malformed_bodies_are_damage_even_under_a_right_checksum(body: bytes) -> None:
    decoded = decode(0, sealed(0, body))
    assert (decoded.kind, decoded.fields) == (MetadataKind.DAMAGED, EnvelopeFields(base=0))
    assert decoded.reason


@given(progress(), st.data())
@settings(max_examples=examples(60))
def test_a_flipped_bit_or_another_offset_is_noticed(fields: EnvelopeFields, data: st.DataObject) -> None:
    commit = encode(fields)
    assert decode(commit.offset + 1, commit.metadata).kind is MetadataKind.DAMAGED
    raw = bytearray(commit.metadata.encode("utf-16-le"))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    decoded = decode(commit.offset, raw.decode("utf-16-le", "surrogatepass"))
    assert decoded.kind is not MetadataKind.ENVELOPE
    assert decoded.fields == EnvelopeFields(base=commit.offset)


@given(st.integers(-(1 << 70), 1 << 70), st.text(), st.booleans(), st.none() | st.integers(-5, 100))
def test_any_text_is_survived(offset: int, text: str, prefixed: bool, log_end: int | None) -> None:
    decoded = decode(offset, PREFIX + text if prefixed else text, log_end)
    assert 0 <= decoded.fields.base <= OFFSET_MAX


@given(st.integers(0, OFFSET_MAX), st.binary(max_size=200), st.binary(max_size=60))
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
def test_any_body_under_a_right_checksum_is_survived(offset: int, body: bytes, ranges: bytes) -> None:
    cursor_done = bytes([4 << 3 | 2, len(ranges)]) + ranges
    for candidate in (body, bytes([5 << 3 | 2, len(cursor_done)]) + cursor_done, bytes([0x42, len(ranges)]) + ranges):
        decoded = decode(offset, sealed(offset, candidate), log_end=offset + 1_000)
        assert (decoded.fields.claims.end or 0) <= offset + 1_000
        Progress.restore(decoded.fields)


def hostile_bodies() -> list[bytes]:
    """Bodies at the longest length that is read, built to unfold into as much as possible."""
    size = bytes_that_fit(ENVELOPE_UNITS_MAX - len(PREFIX)) - 40
    length = bytes([size & 0x7F | 0x80, size >> 7])
    inner = size - 3
    bitmap = bytes([0x22, inner & 0x7F | 0x80, inner >> 7, 3, 2, *b"\x55" * (inner - 2)])
    return [
        b"\x2a" + length + bitmap,
        b"\x42" + length + (b"\x00\xff\x7f\x01" * size)[:size],
        b"\x2a\x00" * (size // 2),
        b"\x52\x00" * (size // 2),
        b"\x5a\x00" * (size // 2),
        b"\x08\x01" * (size // 2),
    ]


@pytest.mark.parametrize("body", hostile_bodies(), ids=["bitmap", "attempts", "cursors", "lanes", "unknown", "epochs"])
def test_hostile_metadata_costs_bounded_memory(body: bytes) -> None:
    metadata = sealed(5, body)
    assert units(metadata) <= ENVELOPE_UNITS_MAX
    tracemalloc.start()
    decode(5, metadata)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_metadata_longer_than_any_envelope_is_not_read() -> None:
    metadata = PREFIX + "㐀" * 5_000_000
    tracemalloc.start()
    assert decode(5, metadata).kind is MetadataKind.DAMAGED
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


@given(progress(), st.integers(0, 20_000))
def test_nothing_beyond_the_log_end_is_claimed(fields: EnvelopeFields, below: int) -> None:
    commit = encode(fields)
    log_end = max(0, (fields.claims.end or 0) - below)
    decoded = decode(commit.offset, commit.metadata, log_end)
    assert decoded.fields.claims == fields.claims.clip(0, log_end)
    assert decoded.beyond_log_end == (fields.claims.clip(0, log_end) != fields.claims)
    assert decoded.fields.rejected <= decoded.fields.claims
    assert decoded.fields.fingerprint == fields.fingerprint


# --- contradictions are refused when writing


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (EnvelopeFields(base=-1), "base"),
        (EnvelopeFields(base=1 << 63), "base"),
        (EnvelopeFields(base=5, done=Ranges([(5, 6)])), "done"),
        (EnvelopeFields(base=5, until=4), "until"),
        (EnvelopeFields(base=5, cursors=(Cursor(9, 8),)), "base"),
        (EnvelopeFields(base=5, cursors=(Cursor(9, 9),) * 16), "cursors"),
        (EnvelopeFields(base=5, epoch=-1), "epoch"),
        (EnvelopeFields(base=5, attempts=(Attempts(4, 1),)), "attempts"),
        (EnvelopeFields(base=5, rejected=Ranges([(5, 6)])), "rejected"),
        (EnvelopeFields(base=5, lanes=(LaneShare("No", 1),)), "lanes"),
        (EnvelopeFields(base=5, fingerprint=Fingerprint(b"", 0, 0)), "fingerprint"),
        (EnvelopeFields(base=5, fingerprint=Fingerprint(bytes(16), 0, -1)), "fingerprint"),
    ],
)
def test_contradictory_fields_are_refused(fields: EnvelopeFields, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        encode(fields)
    assert refused.value.field == field
