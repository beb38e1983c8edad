"""The commit envelope: round trip, truth under truncation (I10, I3), and indifference to hostile metadata."""

import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.kernel.envelope import PREFIX, Decoded, EncodedCommit, MetadataKind, decode, encode
from braid.kernel.envelope.base46341 import bytes_that_fit, pack
from braid.kernel.envelope.body import write_body
from braid.kernel.envelope.fit import left_out
from braid.kernel.errors import Invalid
from braid.kernel.limits.envelope import ENVELOPE_ATTEMPTS_MAX, ENVELOPE_UNITS_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import EMPTY, Ranges
from braid.kernel.progress.tracker import Progress

OFFSET_MAX = (1 << 63) - 1
Encoder = Callable[[EnvelopeFields, int], EncodedCommit]
FINGERPRINT = Fingerprint(bytes(range(16)), 7, 0xDEADBEEF)


def spans(low: int, high: int, size: int = 12) -> st.SearchStrategy[Ranges]:
    """Sets of ranges within `[low, high)`."""
    starts = st.integers(low, high - 1)
    pairs = st.tuples(starts, st.integers(1, 40)).map(lambda pair: (pair[0], min(pair[0] + pair[1], high)))
    return st.lists(pairs, max_size=size).map(Ranges)


@st.composite
def progress(draw: st.DrawFn) -> EnvelopeFields:
    """Any consistent progress."""
    base = draw(st.integers(0, 1 << draw(st.sampled_from([3, 10, 40, 61]))))
    near = base + draw(st.sampled_from([30, 400, 10_000]))
    done = draw(spans(base + 1, near))
    cursors = tuple(draw(cursor(near)) for _ in range(draw(st.integers(0, 2))))
    claims = EnvelopeFields(base=base, done=done, cursors=cursors).claims
    unfinished = sorted(draw(st.sets(st.integers(base, near), max_size=8)) - {base - 1})
    return EnvelopeFields(
        base=base,
        done=done,
        until=draw(st.none() | st.integers(near, near + 500)),
        cursors=cursors,
        epoch=draw(st.integers(0, OFFSET_MAX)),
        detached=draw(st.booleans()),
        oldest_ingested_at_ms=draw(st.none() | st.integers(-(1 << 63), OFFSET_MAX)),
        head_ingested_at_ms=draw(st.none() | st.integers(0, 1 << 42)),
        attempts=tuple(Attempts(offset, draw(st.integers(1, 300))) for offset in unfinished if offset not in claims),
        rejected=draw(spans(max(0, base - 50), near)) & claims,
        expired=draw(spans(0, near)) & claims,
        fingerprint=draw(st.none() | fingerprints()),
        lanes=tuple(
            draw(st.lists(st.builds(LaneShare, st.from_regex(r"\A[a-z0-9-]{1,63}\Z"), st.integers(0, 99)), max_size=3))
        ),
    )


def fingerprints() -> st.SearchStrategy[Fingerprint]:
    """Any fingerprint."""
    return st.builds(
        Fingerprint,
        st.binary(min_size=16, max_size=16),
        st.integers(-1, (1 << 31) - 1),
        st.integers(0, (1 << 32) - 1),
    )


@st.composite
def cursor(draw: st.DrawFn, low: int) -> Cursor:
    """A further cursor above `low`."""
    start = low + draw(st.integers(0, 1_000))
    base = start + draw(st.integers(0, 50))
    until = draw(st.none() | st.integers(base + 60, base + 600))
    return Cursor(start, base, until, draw(spans(base + 1, base + 60, 4)))


def units(text: str) -> int:
    """Length in UTF-16 units, as brokers and Java clients count."""
    return len(text.encode("utf-16-le")) // 2


def assert_truthful(encoder: Encoder, fields: EnvelopeFields, limit_units: int) -> None:
    """I10 for one progress: within the limit, a subset of what is true, equal when nothing was left out."""
    commit = encoder(fields, limit_units)
    assert units(commit.metadata) <= max(limit_units, 0)
    decoded = decode(commit.offset, commit.metadata)
    assert decoded.kind is (MetadataKind.ENVELOPE if commit.metadata else MetadataKind.NONE), decoded.reason
    said = decoded.fields
    assert said.claims <= fields.claims, "claims what is not done"
    assert set(said.attempts) <= set(fields.attempts)
    assert said.rejected <= fields.rejected
    assert said.expired <= fields.expired
    silent = (fields.rejected - said.rejected) | (fields.expired - said.expired)
    assert not (said.claims & silent), "claims a rejected or expired offset without stating it"
    assert commit.truncated == (said != fields)
    assert said == commit.stated


@given(progress())
def test_what_fits_comes_back_equal(fields: EnvelopeFields) -> None:
    commit = encode(fields)
    assert not commit.truncated
    assert commit.offset == fields.base
    assert decode(commit.offset, commit.metadata) == Decoded(MetadataKind.ENVELOPE, fields)


@given(progress(), st.integers(-5, 90))
@settings(max_examples=300)
def test_truncation_never_claims_more_nor_exceeds_the_limit(fields: EnvelopeFields, limit_units: int) -> None:
    assert_truthful(encode, fields, limit_units)


def window(size: int, unfinished: float, seed: int, rejects: float = 0.0) -> EnvelopeFields:
    """The progress of a window of records of which a share is unfinished, some tried, some rejected."""
    rng = np.random.default_rng(seed)
    tracker = Progress(1_000)
    offsets = np.arange(1_000, 1_000 + size, dtype=np.int64)
    tracker.deliver_many(offsets, offsets + 1_700_000_000_000)
    for offset in offsets[rng.random(size) < rejects].tolist():
        tracker.reject(offset)
    tracker.done_many(offsets, rng.random(size) >= unfinished)
    for offset in tracker.unfinished()[::5].tolist():
        for _ in range(1 + offset % 3):
            tracker.attempt(offset)
    return tracker.snapshot(epoch=3, fingerprint=FINGERPRINT, lanes=(LaneShare("live", 8),))


@pytest.mark.parametrize("size", [100, 3_000, 60_000])
@pytest.mark.parametrize(("unfinished", "rejects"), [(0.01, 0.0), (0.5, 0.0), (0.3, 0.2)])
@pytest.mark.parametrize("limit_units", [40, 400, 4_096])
def test_large_windows_stay_truthful(size: int, unfinished: float, rejects: float, limit_units: int) -> None:
    assert_truthful(encode, window(size, unfinished, seed=size, rejects=rejects), limit_units)


def test_truncation_forgets_farthest_ranges_and_uses_the_room() -> None:
    fields = replace(window(150_000, 0.3, seed=1), attempts=())
    commit = encode(fields)
    assert commit.truncated
    assert commit.offset == fields.base
    assert commit.stated.done == fields.done.clip(0, commit.stated.done.edges[-1])
    assert units(commit.metadata) > 4_000


def test_attempts_are_dropped_only_after_the_done_ranges() -> None:
    tracker = Progress(0)
    offsets = np.arange(0, 9_000, dtype=np.int64)
    tracker.deliver_many(offsets, offsets)
    tracker.done_many(offsets, offsets % 3 == 2)
    for offset in tracker.unfinished().tolist():
        for _ in range(1 + offset % 5):
            tracker.attempt(offset)
    fields = tracker.snapshot()
    roomy, tight = encode(fields, ENVELOPE_UNITS_MAX), encode(fields, 1_000)
    assert not roomy.stated.done
    assert roomy.stated.attempts
    assert tight.stated.attempts == fields.attempts[: len(tight.stated.attempts)]
    assert 0 < len(tight.stated.attempts) < len(fields.attempts)
    assert not tight.stated.done


def test_unstated_rejections_lower_the_base_until_a_later_commit() -> None:
    tracker = Progress(0)
    offsets = np.arange(0, 4_000, dtype=np.int64)
    tracker.deliver_many(offsets, offsets)
    for offset in offsets.tolist():
        assert tracker.reject(offset) if offset % 7 < 3 else tracker.done(offset)
    stated = EMPTY
    bases: list[int] = []
    while not bases or bases[-1] < 4_000:
        commit = encode(tracker.snapshot(epoch=1), 100)
        stated = stated | commit.stated.rejected
        bases.append(commit.offset)
        tracker.acknowledge(commit.stated)
        assert len(bases) < 50
    assert bases == sorted(set(bases)), "every commit moves on"
    assert stated == Ranges.of_offsets(offset for offset in range(4_000) if offset % 7 < 3)


def test_stated_rejections_are_repeated_only_where_there_is_room() -> None:
    before = Ranges.of_offsets(range(0, 200, 5))
    fields = EnvelopeFields(base=1_000, done=Ranges([(1_005, 1_010)]), rejected_before=before)
    roomy, tight, none = (encode(fields, units) for units in (4_096, 12, 4))
    assert (roomy.stated.rejected, roomy.truncated) == (before, False)
    assert decode(roomy.offset, roomy.metadata).fields == roomy.stated
    assert (tight.offset, tight.stated.done, tight.stated.rejected, tight.truncated) == (
        1_000,
        fields.done,
        EMPTY,
        False,
    )
    assert (none.offset, none.metadata) == (1_000, "")
    control = encode(replace(fields, rejected=before, rejected_before=EMPTY), 12)
    assert control.offset < 1_000, "what no commit has stated yet does lower the base"


def test_rejected_and_expired_offsets_left_unstated_are_counted() -> None:
    before, rejected, expired = Ranges([(0, 500)]), Ranges([(700, 705), (1_200, 1_202)]), Ranges([(600, 603)])
    plain = EnvelopeFields(base=1_000, done=Ranges([(1_200, 1_202)]), rejected_before=before)
    fields = replace(plain, rejected=rejected, expired=expired)
    assert [left_out(fields, encode(fields, units).stated) for units in (4_096, 16, 4)] == [0, 2, 10]
    assert left_out(plain, encode(plain, 4).stated) == 0, "what was stated before"


def test_excess_attempts_are_left_out_and_counted_as_truncated() -> None:
    run = tuple(Attempts(offset, 1) for offset in range(ENVELOPE_ATTEMPTS_MAX + 5))
    commit = encode(EnvelopeFields(base=0, attempts=run))
    assert commit.truncated
    assert len(decode(0, commit.metadata).fields.attempts) == ENVELOPE_ATTEMPTS_MAX


# --- negative control: the mutant that claims what it leaves out


def claiming_encoder(fields: EnvelopeFields, limit_units: int) -> EncodedCommit:
    """A wrong encoder: what does not fit is claimed as done by moving the base past the gaps."""
    honest = encode(fields, limit_units)
    if not honest.truncated:
        return honest
    end = fields.claims.edges[-1]
    return encode(EnvelopeFields(base=end, epoch=fields.epoch), limit_units)


def filling_encoder(fields: EnvelopeFields, limit_units: int) -> EncodedCommit:
    """A wrong encoder: gaps are closed until the ranges fit."""
    honest = encode(fields, limit_units)
    if not honest.truncated or not fields.done:
        return honest
    return encode(
        replace(fields, done=Ranges([(fields.done.edges[0], fields.done.edges[-1])]), attempts=()), limit_units
    )


def silent_encoder(fields: EnvelopeFields, limit_units: int) -> EncodedCommit:
    """A wrong encoder: claims of rejected offsets stay, their statement goes."""
    honest = encode(fields, limit_units)
    return encode(replace(fields, rejected=EMPTY, attempts=()), limit_units) if honest.truncated else honest


@pytest.mark.parametrize("mutant", [claiming_encoder, filling_encoder, silent_encoder])
def test_the_checker_turns_red_on_encoders_that_claim_too_much(mutant: Encoder) -> None:
    fields = window(3_000, 0.3, seed=4, rejects=0.1)
    assert_truthful(encode, fields, 150)
    with pytest.raises(AssertionError, match="claims"):
        assert_truthful(mutant, fields, 150)


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
@settings(max_examples=150)
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
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
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


# --- packing


def test_packing_fills_the_limit_of_a_broker() -> None:
    assert bytes_that_fit(4_096 - len(PREFIX)) == 7_930
    assert len(PREFIX + pack(b"\xff" * 7_930)) == 4_096
    assert len(pack(bytes(7_930)).encode()) == 4_093 * 3
