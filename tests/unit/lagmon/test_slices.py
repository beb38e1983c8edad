"""Parts of a cluster's rows are bounded by what they cost, and groups are registered between other work."""

import numpy as np
import pytest

from braid.kernel.envelope import encode
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from services.lagmon.columns.progress import Kind
from services.lagmon.domain import ClusterModel
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Said, commits

NOW = Now(2.0, 2_000)
PARTITIONS = 40
ENVELOPE = encode(EnvelopeFields(5, oldest_ingested_at_ms=900))
STREAM = Channel("logs", "live", "east", "t", 3, Presence.OPEN, "logs/live/1")


def half_with_envelopes(monkeypatch: pytest.MonkeyPatch) -> ClusterModel:
    """Every other partition has an envelope; parts have 16 cheap rows or 4 costly ones."""
    monkeypatch.setattr("services.lagmon.domain.LAG_COLUMN_ROWS", 16)
    monkeypatch.setattr("services.lagmon.domain.LAG_COSTLY_ROWS", 4)
    known = ClusterModel("east")
    for number in range(PARTITIONS):
        said: Said = (5, "") if number % 2 else (ENVELOPE.offset, ENVELOPE.metadata)
        known.take(0, commits({("g", "t", number): said}), 1.0)
    known.wanted()
    return known


def decoded(known: ClusterModel) -> int:
    """How many envelopes were decoded."""
    return int((known.progress["kind"] == Kind.SIMPLE).sum())


def test_no_part_decodes_more_envelopes_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    known = half_with_envelopes(monkeypatch)
    known.observe({TopicPartition("t", number): 9 for number in range(PARTITIONS)}, 1.5)
    facts, before, seen = known.facts(MeshView()), 0, list[int]()
    for rows in known.slices(facts):
        known.lags(rows, facts, NOW)
        assert decoded(known) - before <= 4
        before = decoded(known)
        seen += rows.tolist()
    assert before == PARTITIONS // 2
    assert seen == known.progress.rows().tolist()
    assert [len(rows) for rows in known.slices(facts)] == [16, 16, 8], "what is decoded is cheap"


def test_done_partitions_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    known = half_with_envelopes(monkeypatch)
    known.observe({TopicPartition("t", number): 5 for number in range(PARTITIONS)}, 1.5)
    assert [len(rows) for rows in known.slices(known.facts(MeshView()))] == [16, 16, 8]
    assert decoded(known) == 0


def test_rows_that_go_between_parts_are_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    known = half_with_envelopes(monkeypatch)
    facts = known.facts(MeshView())
    parts = known.slices(facts)
    first = next(parts)
    known.take(0, commits({("g", "t", number): None for number in range(10, PARTITIONS)}), 2.0)
    rest = [row for rows in parts for row in rows.tolist()]
    assert [*first.tolist(), *rest] == list(range(10))
    assert [len(rows) for rows in ClusterModel("none").slices(facts)] == [0], "one part even of nothing"


def groups(count: int) -> MeshView:
    """Registered groups of one channel."""
    subscriptions = {f"g{number}": GroupSubscription(frozenset({"logs"})) for number in range(count)}
    return MeshView(channels={STREAM.name: STREAM}, groups=subscriptions)


def test_groups_are_registered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lagmon.domain.LAG_SLICE_ROWS", 8)
    known, view, before = ClusterModel("east"), groups(10), 0
    for _ in known.registering(view):
        assert len(known.progress) - before <= 8 + STREAM.partitions
        before = len(known.progress)
    assert len(known.progress) == 10 * STREAM.partitions
    whole = ClusterModel("east")
    whole.register(view)
    assert np.array_equal(whole.progress.rows(), known.progress.rows())
    assert list(known.registering(view)) == [], "nothing is new"


def test_what_is_dropped_while_groups_are_registered_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.lagmon.domain.LAG_SLICE_ROWS", 8)
    known, view = ClusterModel("east"), groups(10)
    known.take(0, commits({("g0", "t", 0): (5, "")}), 1.0)
    work = known.registering(view)
    next(work)
    known.take(0, commits({("g0", "t", 0): None}), 2.0)
    list(work)
    known.register(view)
    assert len(known.progress) == 10 * STREAM.partitions
