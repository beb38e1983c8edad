"""Counting of calls that repeat: first at once, then ever more rarely, and bounded for each principal."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.audit.calls import Call, CallRecorded, Outcome
from braid.kernel.audit.counting import CallCounts
from braid.kernel.limits.access.audit import AUDIT_REPEAT_SECONDS, AUDIT_ROWS_PER_PRINCIPAL, AUDIT_WINDOW_SECONDS

MALLORY, ANN = "spiffe://braid.local/app/mallory", "spiffe://braid.local/user/ann"


def refused(principal: str = MALLORY, resource: str = "stream/logs", time_ms: int = 0, **others: object) -> Call:
    caller, asked = (time_ms, principal, True, "default", "10.0.0.7"), ("registry", "MoveStream", resource, "")
    call = Call(*caller, *asked, Outcome.REFUSED, "denied")
    return replace(call, **others)  # type: ignore[arg-type]


def test_the_first_call_is_written_at_once_and_repeats_counted() -> None:
    counts = CallCounts()
    counts.add(refused(time_ms=1), 0.0)
    assert counts.due(0.0) == [CallRecorded(refused(time_ms=1), 1, 1)]
    counts.add(refused(time_ms=2), 0.1)
    counts.add(refused(time_ms=3), 0.2)
    assert counts.due(0.3) == []
    assert counts.due(0.5) == [CallRecorded(refused(time_ms=3), 3, 1)]
    assert counts.due(100.0) == []  # nothing has changed


def test_a_hostile_caller_costs_few_writes_whatever_its_rate() -> None:
    counts, written = CallCounts(), 0
    for second in range(3_600):
        for _ in range(20):
            counts.add(refused(time_ms=second), float(second))
        written += len(counts.due(float(second)))
    assert written <= 7 + 3_600 / AUDIT_REPEAT_SECONDS[1] + 1
    assert counts.due(AUDIT_WINDOW_SECONDS)[-1].count == 72_000


def test_a_caller_with_too_many_counts_merges_only_its_own() -> None:
    counts = CallCounts()
    for number in range(10_000):
        counts.add(refused(resource=f"stream/s-{number}"), 0.0)
    counts.add(refused(ANN), 0.0)
    found = counts.due(0.0)
    mine = [record for record in found if record.call.principal == MALLORY]
    assert len(mine) == AUDIT_ROWS_PER_PRINCIPAL + 1
    (rest,) = [record for record in mine if not record.call.rpc]
    assert rest.count == 10_000 - AUDIT_ROWS_PER_PRINCIPAL and not rest.call.resource
    assert [record for record in found if record.call.principal == ANN] == [CallRecorded(refused(ANN), 1, 0)]


def test_claims_share_one_allowance_whatever_name_they_give() -> None:
    counts = CallCounts()
    for number in range(1_000):
        counts.add(refused(f"spiffe://braid.local/app/{number}", authenticated=False), 0.0)
    found = counts.due(0.0)
    assert len(found) == AUDIT_ROWS_PER_PRINCIPAL + 1
    assert sum(record.count for record in found) == 1_000


def test_a_window_ends_and_gives_room_back() -> None:
    counts = CallCounts(rows_max=4, rows_per_principal=2)
    for number in range(3):
        counts.add(refused(resource=f"stream/s-{number}"), 0.0)
    counts.due(0.0)
    counts.due(AUDIT_WINDOW_SECONDS)
    counts.add(refused(resource="stream/new", time_ms=9), AUDIT_WINDOW_SECONDS)
    assert counts.due(AUDIT_WINDOW_SECONDS) == [CallRecorded(refused(resource="stream/new", time_ms=9), 1, 9)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=200))
def test_every_call_is_counted_and_the_counts_are_bounded(calls: list[tuple[int, int, bool]]) -> None:
    counts = CallCounts(rows_max=12, rows_per_principal=3)
    written: dict[object, CallRecorded] = {}
    for now, (principal, resource, proved) in enumerate(calls):
        name = f"spiffe://braid.local/app/{principal}"
        counts.add(refused(name, f"stream/{resource}", now, authenticated=proved), float(now))
        written.update((record.key, record) for record in counts.due(float(now)))
    written.update((record.key, record) for record in counts.all_changed())
    assert sum(record.count for record in written.values()) == len(calls)
    assert len(written) <= 12 + 10 + 1
