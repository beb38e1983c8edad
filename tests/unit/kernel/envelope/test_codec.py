"""The commit envelope: round trip, truth under truncation (I10, I3), and indifference to hostile metadata."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.envelope import PREFIX, Decoded, EncodedCommit, MetadataKind, decode, encode
from braid.kernel.envelope.base46341 import bytes_that_fit, pack
from braid.kernel.envelope.fit import left_out
from braid.kernel.limits.envelope import ENVELOPE_ATTEMPTS_MAX, ENVELOPE_UNITS_MAX
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import EMPTY, Ranges
from braid.kernel.progress.tracker import Progress
from tests.support.examples import examples
from tests.unit.kernel.envelope.drawn_progress import progress, units

Encoder = Callable[[EnvelopeFields, int], EncodedCommit]
FINGERPRINT = Fingerprint(bytes(range(16)), 7, 0xDEADBEEF)


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
@settings(max_examples=examples(90))
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


# --- packing


def test_packing_fills_the_limit_of_a_broker() -> None:
    assert bytes_that_fit(4_096 - len(PREFIX)) == 7_930
    assert len(PREFIX + pack(b"\xff" * 7_930)) == 4_096
    assert len(pack(bytes(7_930)).encode()) == 4_093 * 3
