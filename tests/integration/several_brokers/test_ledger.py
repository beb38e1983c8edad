"""The ledger turns red for each thing that it promises to notice."""

from collections.abc import Callable

import pytest

from tests.integration.several_brokers.ledger import Ledger, Place, Span

FAULT = Span(10.0, 20.0)


def place(number: int) -> Place:
    return Place("east", "t", 0, number)


def ledger(count: int = 3) -> Ledger:
    """Records 0 to `count` - 1, sent a second after each other, acknowledged and handled half a second later."""
    made = Ledger()
    for number in range(count):
        made.note_sent(number, float(number))
        made.note_acknowledged(number, number + 0.5, place(number))
        made.note_handled(number, number + 0.5)
    return made


def again(broken: Ledger) -> None:
    broken.note_handled(1, 12.0)


def unhandled(broken: Ledger) -> None:
    broken.entries[1].handled.clear()


def unacknowledged(broken: Ledger) -> None:
    broken.note_sent(9, 12.0)


def strange(broken: Ledger) -> None:
    broken.note_handled(77, 12.0)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (again, "handled again though not in flight during a fault: 1"),
        (unhandled, "acknowledged and never handled: 1"),
        (unacknowledged, "never acknowledged: 9"),
        (strange, "handled and never sent: 77"),
    ],
)
def test_each_fault_is_named(damage: Callable[[Ledger], None], told: str) -> None:
    broken = ledger()
    assert broken.violations([FAULT]) == []
    damage(broken)
    assert broken.violations([FAULT]) == [told]


def test_in_flight_records_may_repeat_and_reported_ones_be_lost() -> None:
    found = ledger(12)
    found.note_handled(10, 30.0)  # sent at 10, acknowledged at 10.5
    assert found.violations([FAULT]) == []
    assert found.violations([Span(11.0, 20.0)]) == ["handled again though not in flight during a fault: 10"]
    found.entries[3].handled.clear()
    assert found.violations([FAULT], lost=[3]) == []
    assert found.told_lost([("t", 0, 3, 4), ("t", 1, 0, 9)], before=4.2) == {3}


def test_logs_are_compared_with_receipts() -> None:
    found, logs = ledger(12), {place(number): number for number in range(12)}
    assert found.log_violations(logs, [FAULT]) == []
    assert found.log_violations({**logs, place(50): 11}, [FAULT]) == []
    assert found.log_violations({**logs, place(50): 1}, [FAULT]) == [
        "written again though not in flight during a fault: 1"
    ]
    del logs[place(5)]
    assert found.log_violations(logs, [FAULT]) == ["not where its receipt says: 5"]
    assert found.log_violations(logs, [FAULT], lost=[5]) == []


def test_waits_and_resumption() -> None:
    found = ledger(12)
    found.note_sent(12, 12.0)
    found.note_acknowledged(12, 15.0, Place("east", "t", 1, 0))
    assert found.longest_wait(Span(0.0, 9.0)) == 0.5
    assert found.longest_wait(FAULT) == 3.0
    assert found.resumed(10.5) == {("east", 0): 1.0, ("east", 1): 4.5}
