"""lagmon merges reports of pathways within bounds, and forgets what is older than an hour."""

import pytest

from braid.kernel.limits.lagmon import pathways as limits
from braid.kernel.pathways.edges import Edge, point_hash
from braid.kernel.pathways.sketches import Sketch
from services.lagmon.pathways import store as stores
from services.lagmon.pathways.store import Latencies, LeftOut, PathwayStore, Point, Report, chain, ends, merged

NOW_MS = 1_790_000_000_000
MINUTE_MS = 60_000


def point(edge: Edge, parent: int = 0, service: str = "shop") -> Point:
    """A point of a service."""
    return Point(point_hash(service, edge, parent), parent, service, edge)


SENT = point(Edge("orders"))
TAKEN = point(Edge("orders", "checkout"), SENT.hash)
PAID = point(Edge("payments"), TAKEN.hash)


def latencies(*ms: int) -> Latencies:
    """Latencies that are the same since the beginning."""
    found = Latencies(Sketch(), Sketch())
    for each in ms:
        found.full.add(each)
        found.edge.add(each)
    return found


def add(
    store: PathwayStore,
    now_ms: int,
    *measured: tuple[Point, Latencies],
    sequence: int = 1,
    reporter: str = "web/1",
    left_out: LeftOut | None = None,
) -> bool:
    """Adds a report."""
    return store.add(Report(reporter, sequence, measured, left_out or LeftOut()), now_ms)


def test_reports_of_two_processes_are_merged() -> None:
    store = PathwayStore()
    assert add(store, NOW_MS, (SENT, latencies(0, 0)))
    assert add(store, NOW_MS, (SENT, latencies(0)), (TAKEN, latencies(5, 10)), reporter="web/2")
    kept = store.kept(MINUTE_MS, NOW_MS)
    assert merged(kept, SENT.hash).edge.count == 3
    assert merged(kept, TAKEN.hash).edge.quantiles(1.0)[0] == pytest.approx(10, rel=0.01)


def test_a_report_that_comes_twice_counts_once() -> None:
    store = PathwayStore()
    assert add(store, NOW_MS, (SENT, latencies(0)), left_out=LeftOut(1, 2, 3))
    assert not add(store, NOW_MS + 5_000, (SENT, latencies(0)), left_out=LeftOut(1, 2, 3))
    kept = store.kept(MINUTE_MS, NOW_MS)
    assert merged(kept, SENT.hash).edge.count == 1
    assert [bucket.left_out for bucket in kept.buckets] == [LeftOut(1, 2, 3)]


def test_counts_beyond_all_bounds_stay_in_a_message() -> None:
    store, most = PathwayStore(), LeftOut(1 << 53, 1 << 53, 1 << 53)
    for sequence in range(1, 4):
        add(store, NOW_MS, left_out=most, sequence=sequence)
    assert store.kept(MINUTE_MS, NOW_MS).buckets[0].left_out == most


def test_a_report_that_comes_after_a_newer_one_is_ignored() -> None:
    store = PathwayStore()
    add(store, NOW_MS, (SENT, latencies(0)), sequence=2)
    assert not add(store, NOW_MS, (SENT, latencies(0)), sequence=1)


def test_a_minute_is_answered_from_the_short_buckets() -> None:
    store = PathwayStore()
    add(store, NOW_MS, (SENT, latencies(0)))
    add(store, NOW_MS + 90_000, (SENT, latencies(0, 0)), sequence=2)
    recent = store.kept(MINUTE_MS, NOW_MS + 95_000)
    assert merged(recent, SENT.hash).edge.count == 2
    assert MINUTE_MS <= recent.window_ms <= MINUTE_MS + 10_000
    assert merged(store.kept(60 * MINUTE_MS, NOW_MS + 95_000), SENT.hash).edge.count == 3


def test_the_time_covered_begins_with_the_first_report() -> None:
    store = PathwayStore()
    add(store, NOW_MS, (SENT, latencies(0)))
    assert store.kept(60 * MINUTE_MS, NOW_MS + 30_000).window_ms == 30_000


def test_an_hour_is_kept_and_no_more() -> None:
    store = PathwayStore()
    add(store, NOW_MS, (SENT, latencies(0)))
    add(store, NOW_MS + 59 * MINUTE_MS, (TAKEN, latencies(1)), sequence=2)
    assert SENT.hash in store.points
    add(store, NOW_MS + 66 * MINUTE_MS, (TAKEN, latencies(1)), sequence=3)
    assert list(store.points) == [TAKEN.hash]
    assert list(store.newest_ms) == [TAKEN.hash]


def test_a_clock_set_back_forgets_the_future() -> None:
    store = PathwayStore()
    add(store, NOW_MS + 3_600_000, (SENT, latencies(0)))
    add(store, NOW_MS, (TAKEN, latencies(0)), sequence=2)
    assert list(store.points) == [TAKEN.hash]


def test_points_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PATHWAY_STORE_NODES_MAX", 1)
    store = PathwayStore()
    add(store, NOW_MS, (SENT, latencies(0)), (TAKEN, latencies(1, 2)))
    assert list(store.points) == [SENT.hash]
    assert store.kept(MINUTE_MS, NOW_MS).buckets[0].left_out == LeftOut(records=2)


def test_sketches_beyond_the_bound_give_way_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PATHWAY_STORE_BINS_MAX", 500)
    store = PathwayStore()
    for number in range(60):
        many = latencies(*(1 << n for n in range(30)))
        add(store, NOW_MS + number * MINUTE_MS, (SENT, many), sequence=number + 1)
    everything = store.kept(limits.PATHWAY_WINDOW_MS_MAX, NOW_MS + 59 * MINUTE_MS)
    assert 0 < sum(bucket.size for bucket in everything.buckets) <= 500
    assert merged(store.kept(MINUTE_MS, NOW_MS + 59 * MINUTE_MS), SENT.hash).edge.count >= 30


def test_reporters_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PATHWAY_REPORTERS_MAX", 2)
    store = PathwayStore()
    for reporter in ("a", "b", "a", "c"):
        add(
            store,
            NOW_MS,
            (SENT, latencies(0)),
            sequence=5 if reporter != "a" else 5 + len(store.points),
            reporter=reporter,
        )
    assert not add(store, NOW_MS, (SENT, latencies(0)), sequence=5, reporter="a")
    assert add(store, NOW_MS, (SENT, latencies(0)), sequence=5, reporter="b"), "it was forgotten"


def test_pathways_end_where_no_record_went_on() -> None:
    store = PathwayStore()
    add(store, NOW_MS, (SENT, latencies(0)), (TAKEN, latencies(1)), (PAID, latencies(2)))
    assert ends(store.points, store.kept(MINUTE_MS, NOW_MS)) == [PAID.hash]
    found, partial = chain(store.points, PAID.hash, 32)
    assert (list(found), partial) == ([SENT, TAKEN, PAID], False)


def test_a_pathway_without_its_beginning_says_so() -> None:
    store = PathwayStore()
    add(store, NOW_MS, (PAID, latencies(2)))
    assert chain(store.points, PAID.hash, 32) == ([PAID], True)
    add(store, NOW_MS, (SENT, latencies(0)), (TAKEN, latencies(1)), sequence=2)
    found, partial = chain(store.points, PAID.hash, 2)
    assert (list(found), partial) == ([TAKEN, PAID], True), "a long one shows its last points"
