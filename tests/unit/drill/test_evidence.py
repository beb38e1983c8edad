"""The evidence in a drill's files, and its limits."""

import pytest

from braid.drill.evidence import Evidence, ledger_line, sink_line

SECOND = 1_000_000_000


def evidence(*acknowledged: tuple[str, str, str, float], handled: tuple[str, ...] = ()) -> Evidence:
    """Records as id, cluster, lane, second; and the ids that a member handled."""
    found = Evidence()
    found.take_ledger(ledger_line(id, cluster, lane, round(at * SECOND)) for id, cluster, lane, at in acknowledged)
    found.take_sink("m", (sink_line(id, "logs/live/1/0", 1, SECOND) for id in handled))
    return found


def test_a_record_acknowledged_and_never_handled_is_lost() -> None:
    found = evidence(("a", "east", "live", 1), ("b", "east", "live", 2), handled=("a",))
    assert found.lost == {"b"}
    found.take_sink("n", [sink_line("b", "logs/live/1/0", 1, 3)])
    assert found.lost == frozenset()


def test_a_handled_unacknowledged_record_is_not_lost_or_repeated() -> None:
    found = evidence(handled=("a",))
    assert (found.lost, found.repeated) == (frozenset(), 0)


def test_each_time_but_the_first_is_a_repeat() -> None:
    found = evidence(("a", "east", "live", 1), handled=("a", "a", "a"))
    assert (found.lost, found.repeated) == (frozenset(), 2)


def test_the_last_lane_dates_the_first_acknowledgement_elsewhere() -> None:
    before = [("a", "east", "live", 1.0), ("b", "east", "bulk", 1.0)]
    found = evidence(*before, ("c", "west", "live", 3), ("d", "east", "bulk", 3), ("e", "west", "live", 4))
    assert found.first_ack_elsewhere_ns("east", 2 * SECOND) is None
    found.take_ledger([ledger_line("f", "west", "bulk", 5 * SECOND)])
    assert found.first_ack_elsewhere_ns("east", 2 * SECOND) == 5 * SECOND


def test_what_was_elsewhere_before_is_no_first_acknowledgement() -> None:
    found = evidence(("a", "west", "live", 1))
    assert found.first_ack_elsewhere_ns("east", 2 * SECOND) is None


def test_a_stall_lasts_to_the_spans_end_and_is_the_worst_lanes() -> None:
    found = evidence(("a", "east", "live", 1), ("b", "east", "live", 2), ("c", "east", "bulk", 5))
    assert found.longest_stall_ns(0, 6 * SECOND) == 5 * SECOND
    assert found.longest_stall_ns(4 * SECOND, 6 * SECOND) == 2 * SECOND


def test_a_partition_is_taken_over_elsewhere_in_a_newer_epoch() -> None:
    found = Evidence()
    found.take_sink("victim", [sink_line("a", "l/0", 3, 1), sink_line("b", "l/1", 3, 1)])
    leases = found.leases_of("victim", 0)
    assert leases == {"l/0": 3, "l/1": 3}
    found.take_sink("other", [sink_line("c", "l/0", 3, 5), sink_line("d", "l/0", 4, 7), sink_line("e", "l/9", 4, 8)])
    found.take_sink("victim", [sink_line("f", "l/1", 4, 9)])
    assert found.taken_over_ns("victim", leases, 2) == {"l/0": 7}


@pytest.mark.parametrize("line", ["a east live", "a east live x", "a east live 1 2", ""])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no line"):
        Evidence().take_ledger([line])
