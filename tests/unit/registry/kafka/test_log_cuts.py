"""A log is cut short while it carries traffic, and written on: its loss is told to the offset, and never taken back."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.client.producing.receipts import Receipts
from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.limits.registry.health import EPOCH_LOOKS_MAX, STRETCHES_MAX
from braid.kernel.ports import BatchHead, Written
from braid.kernel.resumptions import SEQUENCES, Resumption, Stretch
from services.registry.kafka import log_cuts
from services.registry.model.channels import checked


class Record(NamedTuple):
    """A record as its batch's head shows it."""

    epoch: int
    producer: int = -1
    sequence: int = -1


def heads(records: Sequence[Record]) -> dict[int, BatchHead]:
    """By offset, the batch that holds it: of records that one producer may have sent together."""
    found: dict[int, BatchHead] = {}
    base = 0
    for offset, record in enumerate(records):
        if offset and record != records[offset - 1]._replace(sequence=records[offset - 1].sequence + 1):
            base = offset
        for each in range(base, offset + 1):
            found[each] = BatchHead(base, offset, record.epoch, record.producer, records[base].sequence)
    return found


def log_of(records: Sequence[Record], start: int = 0, holes: Sequence[int] = ()) -> log_cuts.Log:
    by_offset = heads(records)

    async def head_at(offset: int) -> BatchHead | None:
        assert start <= offset < len(records)
        return None if offset in holes else by_offset[offset]

    return log_cuts.Log(start, len(records), head_at)


def lost(records: Sequence[Record], told: Resumption, start: int = 0, **how: bool) -> list[tuple[int, int]]:
    return [(first, stop) for first, stop in asyncio.run(log_of(records, start).lost(told, **how))]


def written(epoch: int, producer: int, first: int, count: int) -> list[Record]:
    return [Record(epoch, producer, first + at) for at in range(count)]


def own(resumed: int, *stretches: tuple[int, int, int], producer: int = 7) -> Resumption:
    """A producer's report on a connection over which it had these offsets, next offsets, first sequences."""
    own_records = tuple(Stretch(*each) for each in stretches)
    return Resumption(0, stretches[0][0], stretches[-1][1], resumed, producer, own_records)


def test_epochs_that_grow_below_a_producers_records_are_no_cut() -> None:
    log = written(1, 7, 0, 6) + written(2, 7, 6, 6) + written(3, 7, 12, 4)
    assert lost(log, own(12, (0, 12, 0))) == [], "a replica was dropped, then another led"
    assert lost(log, own(14, (0, 14, 0))) == [], "both within one connection"
    assert lost(log, own(12, (0, 12, 0)), start=8) == [], "and retention deleted the first of it"


def test_missing_records_were_cut_where_the_present_epoch_began() -> None:
    log = written(1, 7, 0, 4) + written(2, 8, 0, 8)
    assert lost(log, own(9, (0, 7, 0))) == [(4, 7)]
    assert lost(log, own(9, (5, 7, 5))) == [(4, 7)], "all of a connection, and the producer went on at higher offsets"
    grown = written(1, 7, 0, 2) + written(2, 7, 2, 2) + written(3, 8, 0, 3) + written(4, 8, 3, 5)
    assert lost(grown, own(11, (0, 10, 0))) == [(4, 10)], "whatever epochs grew before and since"


def test_the_same_producers_record_there_now_is_another_one() -> None:
    log = written(1, 7, 0, 4) + written(2, 7, 9, 8)
    assert lost(log, own(4, (0, 9, 0))) == [(4, 9)]


def test_a_log_cut_twice_before_a_look_lost_both_parts() -> None:
    log = written(1, 7, 0, 4) + written(3, 8, 0, 20)
    assert lost(log, own(6, (0, 10, 0))) == [(4, 10)]
    assert lost(log, own(15, (6, 12, 10))) == [(4, 12)], "of the leader in between nothing is left"


def test_a_cut_within_a_connection_is_found_behind_kept_records() -> None:
    log = written(1, 7, 0, 4) + written(3, 8, 0, 3) + written(3, 7, 9, 3)
    assert lost(log, own(12, (0, 6, 0), (7, 10, 9))) == [(4, 6)]


def test_of_a_log_that_is_shorter_only_what_it_goes_to_is_judged() -> None:
    log, told = written(1, 7, 0, 4) + written(2, 8, 0, 2), own(9, (0, 9, 0))
    assert lost(log, told) == [(4, 6)] and log_of(log).is_shorter(told)
    assert lost(log[:4], told) == [] and log_of(log[:4]).is_shorter(told)
    assert not log_of(written(1, 7, 0, 9)).is_shorter(told)


def test_above_a_repeated_offset_everything_is_reported_lost() -> None:
    log, told = written(1, 7, 0, 4) + written(2, 7, 9, 2), own(4, (0, 9, 0))
    assert lost(log, told) == [(4, 9)] and not log_of(log).is_shorter(told)
    assert lost(log[:4], told) == [(4, 9)], "it was cut again where it had been"
    assert lost(log[:2], told) == [(4, 9)] and log_of(log[:2]).is_shorter(told), "the rest may only be late"
    scattered = written(1, 8, 0, 4) + written(2, 8, 9, 3)
    assert lost(scattered, own(5, (8, 9, 3))) == [(4, 9)], "whatever the producer remembers of its own records"
    assert lost(written(2, 7, 9, 8), own(2, (0, 9, 0)), start=3) == [(3, 9)], "retention deleted the offset"


def test_sequences_that_began_again_are_known() -> None:
    last = SEQUENCES - 2
    log = [Record(1, 7, (last + at) % SEQUENCES) for at in range(5)]
    assert lost(log, own(5, (0, 5, last))) == []
    assert lost(log, own(5, (0, 5, last - 1))) == [(0, 5)]


def test_one_look_reads_no_more_than_it_may() -> None:
    log = [Record(epoch, 7, epoch) for epoch in range(3 * EPOCH_LOOKS_MAX)]
    with pytest.raises(OffsetOutOfRange):
        lost(log, own(len(log), (0, len(log), 0)))


class History:
    """A log with its leaders, and producers that write to it, as they tell the registry of it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epoch = 0
        self.connection = 0
        self.told: list[Resumption] = []
        self.producers = [Receipts(self.tell) for _ in range(3)]
        self.senders = [each.new_sender() for each in self.producers]
        self.sequences = [0, 0, 0]
        self.acknowledged: list[tuple[int, Record]] = []
        self.destroyed: set[int] = set()

    def write(self, producer: int, count: int) -> None:
        for _ in range(count):
            record = Record(self.epoch, producer, self.sequences[producer])
            self.sequences[producer] += 1
            offset = len(self.records)
            self.records.append(record)
            self.acknowledged.append((offset, record))
            told = Written("t", 0, offset, 0, self.connection, False, producer, record.sequence)
            self.producers[producer].take(self.senders[producer], told)

    def tell(self, told: Resumption) -> None:
        self.told.append(told)

    def grow(self, *, elects: bool) -> None:
        self.epoch += 1
        self.connection += elects

    def cut(self, count: int, *, seen: bool = True) -> None:
        """Unless it is `seen` the leader got the lead back before any producer wrote: their connections live on."""
        end = max(0, len(self.records) - count)
        self.destroyed.update(range(end, len(self.records)))
        del self.records[end:]
        self.grow(elects=seen)

    def end(self) -> None:
        """Every producer goes on over another connection, beyond all it had."""
        self.connection += 1
        highest = max((offset for offset, _ in self.acknowledged), default=0)
        self.records += [Record(self.epoch)] * max(0, highest + 1 - len(self.records))
        for producer in range(3):
            self.write(producer, 1)


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 6)),
    st.tuples(st.just("grow"), st.booleans(), st.just(0)),
    st.tuples(st.just("cut"), st.integers(1, 12), st.just(0)),
)


@given(st.lists(STEPS, min_size=4, max_size=30))
def test_exactly_the_acknowledged_losses_of_a_log_are_reported(
    steps: list[tuple[str, int, int]],
) -> None:
    history = History()
    for kind, one, other in steps:
        match kind:
            case "write":
                history.write(one, other)
            case "grow":
                history.grow(elects=bool(one))
            case _:
                history.cut(one)
    history.end()
    log = log_of(history.records)
    told = {offset for each in history.told for span in lost(history.records, each) for offset in range(*span)}
    gone = {offset for offset, record in history.acknowledged if history.records[offset] != record}
    assert gone <= told <= history.destroyed
    assert not any(log.is_shorter(each) for each in history.told)


@given(st.lists(STEPS, min_size=4, max_size=30))
def test_no_kept_record_is_called_lost_where_connections_go_on(
    steps: list[tuple[str, int, int]],
) -> None:
    history = History()
    for kind, one, other in steps:
        match kind:
            case "write":
                history.write(one, other)
            case "grow":
                history.grow(elects=bool(one))
            case _:
                history.cut(one, seen=one % 2 == 0)
    history.end()
    told = {offset for each in history.told for span in lost(history.records, each) for offset in range(*span)}
    assert told <= history.destroyed


# --- what producers of older releases tell


def cut(epochs: Sequence[int], told: tuple[int, int, int], start: int = 0, holes: Sequence[int] = ()) -> int | None:
    """Where a log whose offsets bear these epochs was cut, by what a producer tells of its connections."""
    log, resumption = log_of([Record(each) for each in epochs], start, holes), Resumption(0, *told)
    spans = asyncio.run(log.lost(resumption))
    if not spans and log.is_shorter(resumption):
        return None
    assert all(span.stop == resumption.next for span in spans)
    return spans[0].first if spans else resumption.next


def test_a_log_was_cut_where_the_epoch_of_the_older_records_ends() -> None:
    assert cut([1] * 4 + [2] * 8, (0, 7, 5)) == 4
    assert cut([1] * 4 + [2] * 8, (2, 7, 9)) == 4, "also where the producer's own offsets rise"
    assert cut([1] * 4 + [2, 2, 3, 3, 3], (2, 7, 8)) == 4, "whatever leaders came later"
    assert cut([0] * 3 + [1] + [2] * 8, (3, 7, 8)) == 4, "or before"


def test_a_log_of_which_nothing_was_lost_was_not_cut() -> None:
    assert cut([1] * 7 + [2] * 3, (2, 7, 8)) == 7
    assert cut([1] * 9 + [2] * 3, (2, 7, 10)) == 7, "others wrote more"
    assert cut([1] * 10, (2, 7, 8)) == 7, "a connection ended, and nothing else"
    assert cut([1] * 10, (2, 7, 8), start=8) == 7, "retention deleted it"
    assert cut([1] * 6 + [2] * 4, (2, 7, 8), start=4) == 6, "retention deleted a part"


def test_a_wholly_lost_connection_is_dated_by_the_other_epoch() -> None:
    assert cut([1] * 4 + [2] * 8, (5, 7, 6)) == 4


def test_nothing_is_said_yet_of_a_log_shorter_than_before() -> None:
    assert cut([1] * 4, (2, 7, 5)) is None
    assert cut([1] * 4, (5, 7, 6)) is None
    assert cut([1] * 4 + [2] * 4, (2, 7, 8)) is None, "where the producer went on its own id will show more"


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(OffsetOutOfRange):
        cut([1] * 4 + [2] * 8, (2, 7, 5), holes=[3])


@given(st.data())
def test_whatever_the_epochs_a_cut_is_found_to_the_offset(data: st.DataObject) -> None:
    before = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    epochs = [epoch for epoch, count in enumerate(before) for _ in range(count)]
    first = data.draw(st.integers(len(epochs) - before[-1], len(epochs) - 1))
    after = data.draw(st.integers(first + 1, len(epochs)))  # of the run something is left
    kept = epochs[:after] + [len(before)] * data.draw(st.integers(len(epochs) - after + 1, 90))
    resumed = data.draw(st.integers(after, len(kept) - 1))
    assert cut(kept, (first, len(epochs), resumed)) == after


def test_an_older_producer_is_known_by_its_id_where_it_went_on() -> None:
    log = written(1, 7, 0, 6) + written(2, 7, 6, 6) + written(3, 7, 12, 4)
    assert lost(log, Resumption(0, 0, 12, 12)) == [], "epochs grew, nothing was cut"
    log = written(1, 7, 0, 4) + written(2, 7, 4, 4) + written(3, 8, 0, 6) + written(3, 7, 12, 4)
    assert lost(log, Resumption(0, 0, 12, 14)) == [(8, 12)], "cut above its last batch, not where the epoch grew first"


def test_an_older_producer_that_stopped_is_judged_by_epochs() -> None:
    log = written(1, 7, 0, 4) + written(2, 8, 0, 3)
    assert lost(log, Resumption(0, 0, 7, 7)) == []
    assert lost(log, Resumption(0, 0, 7, 7), final=True) == [(4, 7)]


def test_a_client_may_tell_anything() -> None:
    nonsense = [(-1, 0, 1, 1), (2, 0, 1, 1), (0, -1, 1, 1), (0, 3, 3, 1), (0, 0, 1 << 62, 1), (0, 0, 1, -1)]
    assert checked([Resumption(*each) for each in nonsense], 2) == []
    assert checked([Resumption(1, 0, 1, 1)], 2) == [Resumption(1, 0, 1, 1)]
    backwards, beyond, empty = ((4, 6, 0), (2, 9, 0)), ((0, 10, 0),), ((3, 3, 0), (4, 9, 0))
    many = [(at, at + 1, 0) for at in range(0, 2 * STRETCHES_MAX + 2, 2)]
    bad = [own(9, *each) for each in (backwards, beyond, empty)] + [own(99, *many)]
    assert checked([each._replace(next=9) for each in bad[:3]] + bad[3:], 1) == []
    assert checked([own(9, (0, 9, 0), producer=-1), own(9, (0, 9, -1))], 1) == []
    good = own(9, (0, 4, 0), (5, 9, 8))
    assert checked([good], 1) == [good]
