"""Histories of a chaos run: dated by clocks that are off, and restored from a backup."""

from collections.abc import Sequence

from braid.api.assigner.v1.events_pb2 import AssignerEvent, LeaseGrant, LeasesGranted
from braid.api.mesh.v1.event_pb2 import EventMetadata, EventRecord, ListEventsRequest, ListEventsResponse
from testbed.checkers import check, facts
from testbed.checkers.leases import OneGrant
from testbed.ground.clock_offsets import ClockOffsets
from testbed.ground.histories import Histories
from tests.e2e.chaos.judging import in_order

HOUR_MS = 3_600_000
GROUP = "assigner/group/billing"


def record(sequence: int, time_ms: int, data: bytes = b"", history: str = GROUP) -> EventRecord:
    """An event of a history."""
    return EventRecord(history=history, sequence=sequence, metadata=EventMetadata(time_ms=time_ms), data=data)


def granted(sequence: int, time_ms: int, member: str, epoch: int) -> EventRecord:
    """A lease is a member's."""
    grant = LeaseGrant(lease="orders/live/1/0", member=member, epoch=epoch)
    event = AssignerEvent(leases_granted=LeasesGranted(grants=[grant]))
    return record(sequence, time_ms, event.SerializeToString())


def told(histories: Histories) -> Sequence[facts.Fact]:
    """Grants and what became of the store, in the order in which they happened."""
    kinds = (facts.LeaseGranted, facts.StoreBackedUp, facts.StoreRestored)
    return [fact for fact in in_order(histories.facts({})) if isinstance(fact, kinds)]


def test_an_event_dated_by_a_wrong_clock_uses_its_read_time() -> None:
    offsets = ClockOffsets()
    for offset_ms in (HOUR_MS, -HOUR_MS, 192 * HOUR_MS):
        offsets.note(offset_ms)
    began, read = 50 * HOUR_MS, 50 * HOUR_MS + 60_000
    for offset_ms in (0, HOUR_MS, -HOUR_MS, 192 * HOUR_MS):
        assert offsets.true_ms(began + 5_000 + offset_ms, began, read) == began + 5_000
    assert offsets.true_ms(began + 7 * HOUR_MS, began, read) == read, "no clock showed that: as late as may be"


def test_an_event_keeps_the_date_of_its_first_reading() -> None:
    histories = Histories()
    histories.offsets.note(HOUR_MS)
    histories.keep(record(1, 10_000 + HOUR_MS), 9_000, 11_000)
    histories.keep(record(1, 10_000 + HOUR_MS), 99_000, 100_000)
    assert [each.metadata.time_ms for each in next(histories.stretches(GROUP)).records] == [10_000]


class Telling:
    """A service that tells some events."""

    def __init__(self, *told: EventRecord) -> None:
        self.told = told

    async def unary(self, method: str, request: ListEventsRequest, kind: type[ListEventsResponse]) -> object:
        """One event a page."""
        at = int(request.page_token or 0)
        more = str(at + 1) if at + 1 < len(self.told) else ""
        return ListEventsResponse(events=self.told[at : at + 1], next_page_token=more)


async def test_an_event_reported_once_and_missing_later_is_noticed() -> None:
    histories, other = Histories(), "assigner/group/parcels"
    both = [record(1, 1_000), record(2, 1_001), record(1, 1_002, history=other)]
    await histories.read("assigner", Telling(*both))  # type: ignore[arg-type]  # all that is asked of it
    assert histories.absent == {"assigner": []}
    await histories.read("assigner", Telling(both[1], both[2]))  # type: ignore[arg-type]
    assert histories.absent == {"assigner": [f"{GROUP}@1 is told no more"]}
    await histories.read("assigner", Telling(*both))  # type: ignore[arg-type]
    assert histories.absent == {"assigner": []}, "the replica was behind: what is told in the end counts"


def restored() -> Histories:
    """Lease 1 is a's in the backup, b's since; after the restore it is c's."""
    histories = Histories()
    for each in (granted(1, 1_000, "a", 1), granted(2, 2_100, "b", 2)):
        histories.keep(each)
    histories.restored(2_200, 3_000, {GROUP: 1})
    histories.keep(granted(1, 1_000, "a", 1))
    histories.keep(granted(2, 3_500, "c", 9))
    return histories


def test_forgotten_events_precede_a_restore_and_kept_come_once() -> None:
    assert [str(type(fact).__name__)[:5] + getattr(fact, "member", "") for fact in told(restored())] == [
        "Leasea",
        "Store",
        "Leaseb",
        "Store",
        "Leasec",
    ]
    assert not restored().changed, "another event of that number is another history's"
    assert [each.sequence for each in restored().of("registry", "orders")] == []


def test_an_event_missing_from_a_backup_comes_after_it() -> None:
    """The backup was answered at 2,200; what it does not hold was decided at 2,100."""
    found = told(restored())
    assert found.index(facts.StoreBackedUp()) < next(
        at for at, fact in enumerate(found) if isinstance(fact, facts.LeaseGranted) and fact.member == "b"
    )


def test_a_backup_event_that_reads_differently_is_noticed() -> None:
    histories = restored()
    histories.keep(granted(1, 1_000, "x", 1))
    assert histories.changed == [f"{GROUP}@1 is not what it was"]


def test_a_restore_ends_grants_it_forgot_and_keeps_the_others() -> None:
    """The checker knows of restores: without them a lease that is granted anew seems to be another's still."""
    group, lease = "billing", "orders/live/1/0"

    def grant(member: str, epoch: int) -> facts.Fact:
        return facts.LeaseGranted(group, lease, member, epoch, 0)

    forgotten = [facts.StoreBackedUp(), grant("b", 2), facts.StoreRestored(), grant("c", 9)]
    assert not check([OneGrant()], forgotten)
    assert check([OneGrant()], [grant("a", 1), *forgotten]), "a's stands: it is in the backup"
