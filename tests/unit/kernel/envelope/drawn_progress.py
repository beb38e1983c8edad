"""Progress of any shape, for properties of its envelope."""

from hypothesis import strategies as st

from braid.kernel.ports import Fingerprint
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare
from braid.kernel.progress.ranges import Ranges

OFFSET_MAX = (1 << 63) - 1


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
