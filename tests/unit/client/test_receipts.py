"""How far receipts go, and what is told of a log that goes on over another connection."""

from braid.client.receipts import Receipts, Resumption
from braid.kernel.ports import Written


class Told:
    """Receipts of one channel, and what they told."""

    def __init__(self) -> None:
        self.resumed: list[Resumption] = []
        self.receipts = Receipts(self.resumed.append)
        self.sender = self.receipts.new_sender()

    def take(self, *offsets: int, connection: int = 0, partition: int = 0, again: bool = False) -> None:
        for offset in offsets:
            self.receipts.take(self.sender, Written("t", partition, offset, 0, connection, again))


def test_they_go_as_far_as_the_highest_offset_whatever_order_they_are_told_in() -> None:
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


def test_a_repeated_record_whose_offset_the_broker_forgot_is_no_receipt() -> None:
    told = Told()
    told.take(-1)
    assert not told.receipts.next_offsets


def test_a_record_that_was_sent_again_may_have_been_written_over_the_connection_before() -> None:
    told = Told()
    told.take(3, 4)
    told.take(5, connection=1, again=True)
    told.take(6, 7, connection=1)
    told.take(8, connection=2, again=True)
    told.take(12, connection=3)
    assert told.resumed == [Resumption(0, 3, 5, 5), Resumption(0, 6, 8, 8), Resumption(0, 8, 9, 12)]
