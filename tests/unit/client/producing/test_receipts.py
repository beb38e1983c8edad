"""How far receipts go, and what is told of a log that goes on over another connection."""

from braid.client.producing.receipts import Receipts, ReceiptsByLog
from braid.client.producing.routes import ActiveChannel
from braid.kernel.ids import ChannelId
from braid.kernel.limits.client import RECEIPTS_CHANNELS_MAX
from braid.kernel.limits.registry.health import STRETCHES_MAX
from braid.kernel.ports import Written
from braid.kernel.resumptions import Resumption, Stretch


class Told:
    """Receipts of one channel, and what they told."""

    def __init__(self) -> None:
        self.resumed: list[Resumption] = []
        self.receipts = Receipts(self.resumed.append)
        self.sender = self.receipts.new_sender()

    def take(self, *offsets: int, connection: int = 0, partition: int = 0, again: bool = False) -> None:
        for offset in offsets:
            self.receipts.take(self.sender, Written("t", partition, offset, 0, connection, again))


def test_receipts_reach_the_highest_offset_in_any_report_order() -> None:
    told = Told()
    told.take(3, 5, 4)
    told.take(1, partition=2)
    assert told.receipts.next_offsets == {0: 6, 2: 2} and not told.resumed


def test_a_log_that_goes_on_over_another_connection_is_told_once() -> None:
    told = Told()
    told.take(3, 5)
    told.take(9, 10, 11, connection=1)
    assert told.resumed == [Resumption(0, 3, 6, 9)]
    told.take(20, connection=2)
    assert told.resumed[1:] == [Resumption(0, 9, 12, 20)]


def test_an_offset_that_is_given_again_does_not_shorten_them() -> None:
    told = Told()
    told.take(3, 5)
    told.take(4, connection=1)
    assert told.resumed == [Resumption(0, 3, 6, 4)] and told.receipts.next_offsets == {0: 6}


def test_another_client_has_other_connections() -> None:
    told = Told()
    told.take(3, connection=7)
    told.sender = told.receipts.new_sender()
    told.take(4, connection=0)
    assert told.resumed == [Resumption(0, 3, 4, 4)]


def test_what_is_heard_late_of_an_older_connection_tells_nothing() -> None:
    told = Told()
    told.take(3)
    told.take(5, connection=1)
    told.take(4)
    told.take(6, connection=1)
    assert told.resumed == [Resumption(0, 3, 4, 5)] and told.receipts.next_offsets == {0: 7}


def test_a_repeated_record_without_a_known_offset_is_no_receipt() -> None:
    told = Told()
    told.take(-1)
    assert not told.receipts.next_offsets


def test_a_resent_record_may_be_from_the_connection_before() -> None:
    told = Told()
    told.take(3, 4)
    told.take(5, connection=1, again=True)
    told.take(6, 7, connection=1)
    told.take(8, connection=2, again=True)
    told.take(12, connection=3)
    assert told.resumed == [Resumption(0, 3, 5, 5), Resumption(0, 6, 8, 8), Resumption(0, 8, 9, 12)]


class Identified(Told):
    """Receipts of a client whose batches Kafka knows by its id."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence = 0

    def take(self, *offsets: int, connection: int = 0, partition: int = 0, again: bool = False) -> None:
        for offset in offsets:
            written = Written("t", partition, offset, 0, connection, again, 7, self.sequence)
            self.sequence = (self.sequence + 1) % (1 << 31)
            self.receipts.take(self.sender, written)


def test_a_client_with_an_id_tells_which_records_were_its_own() -> None:
    told = Identified()
    told.take(3, 4, 5, 8, 9)
    told.take(20, connection=1)
    assert told.resumed == [Resumption(0, 3, 10, 20, 7, (Stretch(3, 6, 0), Stretch(8, 10, 3)))]


def test_a_record_that_was_sent_again_is_one_of_its_own() -> None:
    told = Identified()
    told.take(3, again=True)
    told.take(4)
    told.take(9, connection=1)
    assert told.resumed == [Resumption(0, 4, 5, 9, 7, (Stretch(3, 5, 0),))]


def test_sequences_begin_again_within_a_stretch() -> None:
    told = Identified()
    told.sequence = (1 << 31) - 1
    told.take(3, 4)
    told.take(9, connection=1)
    assert told.resumed[0].stretches == (Stretch(3, 5, (1 << 31) - 1),)


def test_offsets_restarting_lower_on_one_connection_are_reported() -> None:
    told = Identified()
    told.take(3, 4, 5)
    told.take(4)
    assert told.resumed == [Resumption(0, 3, 6, 4, 7, (Stretch(3, 6, 0),))]
    told.take(5, 6)
    told.take(7, connection=1)
    assert told.resumed[1:] == [Resumption(0, 4, 7, 7, 7, (Stretch(4, 7, 3),))]


def test_acknowledgements_reported_out_of_order_prove_no_cut() -> None:
    """Lower offsets prove one only of records that were sent later."""
    told = Identified()
    told.sequence = 4
    told.take(4, 5)
    told.sequence = 3
    told.take(3)
    assert told.resumed == []
    told.sequence = 2
    told.take(2, connection=1, again=True)
    assert told.resumed == [Resumption(0, 4, 6, 6, 7, (Stretch(4, 6, 4),))]
    told.sequence = 9
    told.take(1, connection=2, again=True)
    assert told.resumed[1].resumed == 1, "what was sent later and lies lower does, however often it was sent"


def test_of_many_stretches_the_first_and_newest_are_remembered() -> None:
    told = Identified()
    told.take(*range(0, 2_000, 2))
    told.take(5_000, connection=1)
    (resumption,) = told.resumed
    firsts = [each.first for each in resumption.stretches]
    assert len(firsts) <= STRETCHES_MAX and firsts[0] == 0
    assert firsts[-STRETCHES_MAX // 2 :] == list(range(2_000 - STRETCHES_MAX, 2_000, 2))
    assert all(each.next == each.first + 1 and each.sequence == each.first // 2 for each in resumption.stretches)
    assert (resumption.first, resumption.next) == (0, 1_999)


# --- channels that are left, and used again


def channel(generation: int, cluster: str = "east") -> ActiveChannel:
    return ActiveChannel(ChannelId("logs", "live", generation), cluster, f"logs.live.{generation}", 1, 100.0)


def acknowledged(receipts: Receipts, *offsets: int) -> None:
    """By a new client."""
    sender = receipts.new_sender()
    for offset in offsets:
        receipts.take(sender, Written("t", 0, offset, 0, 0, False))


def test_receipts_of_a_log_left_earlier_go_on_when_it_is_reused() -> None:
    """A restored store leads back to a channel; its cluster lost records in between."""
    told: list[tuple[ActiveChannel, Resumption]] = []
    receipts = ReceiptsByLog(lambda channel, resumption: told.append((channel, resumption)))
    acknowledged(receipts.use(channel(1)), 7, 8, 9)
    receipts.leave(channel(1))
    assert receipts.use(channel(1, "west")).next_offsets == {}, "another log, by the same name"
    acknowledged(receipts.use(channel(1)), 8)
    assert told == [(channel(1), Resumption(0, 7, 10, 8))]
    assert receipts.use(channel(1)).next_offsets == {0: 10}


def test_of_logs_left_the_last_and_those_in_use_are_remembered() -> None:
    receipts = ReceiptsByLog(lambda channel, resumption: None)
    for generation in range(RECEIPTS_CHANNELS_MAX + 3):
        acknowledged(receipts.use(channel(generation)), 5)
        if generation != 1:
            receipts.leave(channel(generation))
    kept = [bool(receipts.use(channel(number)).next_offsets) for number in range(4)]
    assert kept == [False, True, False, True]
