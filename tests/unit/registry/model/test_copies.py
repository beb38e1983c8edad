"""Histories of copies: the intent, the result, and no event twice."""

import pytest

from braid.kernel.errors import Invalid, NotFound, Refused
from services.registry.model.channels import ChannelRef
from services.registry.model.stream_commands import DeleteStream, IntendReassignment, RecordCopies
from services.registry.model.stream_events import CopiesSettled, ReassignmentIntended
from tests.unit.registry.domain.test_streams import moved
from tests.unit.registry.histories import created

ONE = ChannelRef("live", 1)


def test_an_intent_and_its_result_are_recorded_once() -> None:
    history = created()
    spec = history.state.spec
    assert history.run(IntendReassignment(ONE, 3, 1_000)) == [ReassignmentIntended(ONE, 3, 1_000, spec)]
    assert history.run(IntendReassignment(ONE, 3, 1_000)) == []
    channel = history.channel("live", 1)
    assert (channel.copies, channel.copies_intended, channel.throttle_bytes_per_s) == (0, 3, 1_000)
    assert history.run(RecordCopies(ONE, 3)) == [CopiesSettled(ONE, 3, spec)]
    assert history.run(RecordCopies(ONE, 3)) == []
    channel = history.channel("live", 1)
    assert (channel.copies, channel.copies_intended, channel.throttle_bytes_per_s) == (3, 0, 0)


def test_a_changed_intent_keeps_the_throttle_to_be_taken_away() -> None:
    history = created()
    history.run(IntendReassignment(ONE, 3, 1_000))
    assert history.run(IntendReassignment(ONE, 2)) == [ReassignmentIntended(ONE, 2, 1_000, history.state.spec)]


def test_what_cannot_be_is_refused() -> None:
    history = created()
    for copies in (0, 8):
        with pytest.raises(Invalid):
            history.run(IntendReassignment(ONE, copies or -1))
    with pytest.raises(NotFound):
        history.run(IntendReassignment(ChannelRef("live", 9), 2))


def test_an_end_is_recorded_of_a_deleted_stream_too() -> None:
    history = created()
    history.run(IntendReassignment(ONE, 3), DeleteStream())
    with pytest.raises(NotFound):
        history.run(IntendReassignment(ONE, 2))
    assert history.run(RecordCopies(ONE, 1)) == [CopiesSettled(ONE, 1, history.state.spec)]


def test_a_topic_that_drains_gets_no_other_copies() -> None:
    history = moved()
    with pytest.raises(Refused):
        history.run(IntendReassignment(ONE, 3))
