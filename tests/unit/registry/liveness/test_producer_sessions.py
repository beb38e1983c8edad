"""Producers' sessions: who holds a drain, who stopped counting, what a new leader may conclude."""

from dataclasses import replace

import pytest

from braid.kernel.errors import EvidenceRefused, Exhausted, Unauthenticated
from braid.kernel.limits.registry.resources import PRODUCER_SESSIONS_MAX
from services.registry.liveness import given_routes
from services.registry.liveness.producer_sessions import ProducerSession, Sessions
from services.registry.model.channels import Channel, ChannelRef

DROPPED = Channel(ChannelRef("live", 1), "east", "t", 1, activated_epoch=7, drain_revision=5)
FOREIGN = Channel(ChannelRef("live", 2), "east", "t", 1, activated_epoch=6, drain_revision=5)


def sessions() -> Sessions:
    return Sessions(30.0, epoch=7, began=0.0)


def opened(found: Sessions, id: str, acknowledged: int, current: int, now: float) -> ProducerSession:
    """A producer's session that was given the channel."""
    session = found.open("logs", id, acknowledged, current, now)
    found.give(session, current, [DROPPED.ref])
    return session


def holders(found: Sessions, now: float, channel: Channel = DROPPED) -> list[str]:
    return list(found.standing("logs", channel, 5, now).holders)


def test_a_producer_holds_until_it_acknowledges_the_route() -> None:
    found = sessions()
    session = opened(found, "p", 4, 4, 1.0)
    found.open("other", "q", 0, 1, 1.0)
    found.route_changed("logs", 5, 2.0)
    assert holders(found, 3.0) == ["p"]
    found.acknowledge(session, 5, 5, 4.0)
    assert holders(found, 5.0) == [] and not found.overdue(session, 100.0)


@pytest.mark.parametrize("stranger", ["spiffe://a/bob", ""], ids=["another", "none"])
def test_a_producer_is_opened_again_by_its_own_principal_alone(stranger: str) -> None:
    found = sessions()
    session = found.open("logs", "p", 4, 4, 1.0, "spiffe://a/alice")
    with pytest.raises(Unauthenticated, match="producer p of logs is spiffe://a/alice's") as refused:
        found.open("logs", "p", 4, 4, 2.0, stranger)
    assert refused.value.field == "hello.producer_id"
    assert session.connection == 1
    assert found.open("logs", "p", 4, 4, 3.0, "spiffe://a/alice") is session


def test_a_producer_without_a_certificate_may_come_back_with_one() -> None:
    found = sessions()
    session = found.open("logs", "p", 4, 4, 1.0)
    assert found.open("logs", "p", 4, 4, 2.0, "spiffe://a/alice") is session
    with pytest.raises(Unauthenticated):
        found.open("logs", "p", 4, 4, 3.0)


def test_nobody_can_acknowledge_the_future() -> None:
    """A revision beyond the current one was given before the store was restored: it acknowledges nothing."""
    found = sessions()
    session = opened(found, "p", 99, 5, 1.0)
    assert session.acknowledged == 0 and holders(found, 3.0) == ["p"]
    found.acknowledge(session, 5, 5, 4.0)
    assert holders(found, 5.0) == []


def test_a_producer_owing_too_long_is_out_even_after_a_hello() -> None:
    found = sessions()
    session = opened(found, "p", 4, 4, 1.0)
    found.route_changed("logs", 5, 2.0)
    assert not found.overdue(session, 31.9) and found.overdue(session, 32.0)
    standing = found.standing("logs", DROPPED, 5, 32.0)
    assert (list(standing.holders), list(standing.expired)) == ([], ["p"])
    opened(found, "p", 4, 5, 33.0)
    assert holders(found, 34.0) == []


def test_who_owed_too_long_is_served_again_after_another_hello() -> None:
    found = sessions()
    session = found.open("logs", "p", 4, 4, 1.0)
    found.route_changed("logs", 5, 2.0)
    assert found.overdue(session, 40.0)
    assert found.open("logs", "p", 4, 5, 40.0) is session
    assert holders(found, 40.0) == [] and not found.overdue(session, 40.0)
    found.acknowledge(session, 5, 5, 41.0)
    assert not found.overdue(session, 100.0)


def test_a_broken_connection_is_waited_for_one_session_time() -> None:
    found = sessions()
    session = opened(found, "p", 4, 4, 1.0)
    found.route_changed("logs", 5, 2.0)
    found.disconnected(session, session.connection, 3.0)
    assert holders(found, 20.0) == ["p"]
    again = opened(found, "p", 4, 5, 21.0)
    assert again is session and holders(found, 22.0) == ["p"]
    found.acknowledge(again, 5, 5, 22.0)
    found.disconnected(session, session.connection - 1, 23.0)
    assert session.gone_since is None, "an older stream's end means nothing"


def test_who_ends_its_stream_well_holds_nothing() -> None:
    found = sessions()
    session = found.open("logs", "p", 4, 4, 1.0)
    found.route_changed("logs", 5, 2.0)
    found.left(session, session.connection)
    assert holders(found, 2.5) == []


def test_a_leader_concludes_at_once_only_about_what_it_activated() -> None:
    found = sessions()
    assert holders(found, 1.0) == []
    assert holders(found, 29.0, FOREIGN) == ["producers this registry has not heard of yet"]
    assert holders(found, 30.0, FOREIGN) == []


def test_progress_of_a_lagging_producer_extends_its_time() -> None:
    found = sessions()
    session = found.open("logs", "p", 2, 4, 1.0)
    assert session.owing_since == 1.0
    found.acknowledge(session, 3, 4, 20.0)
    assert not found.overdue(session, 40.0) and found.overdue(session, 50.0)


def test_a_producer_of_some_lanes_counts_for_those_only() -> None:
    letters = replace(DROPPED, ref=ChannelRef("dlq", 1))
    found = sessions()
    session = opened(found, "p", 4, 4, 1.0)
    found.give(session, 4, [letters.ref])
    session.introduce("host", {"dlq"}, drill=False, knows_denials=True)
    found.route_changed("logs", 5, 2.0)
    assert holders(found, 3.0) == [] and holders(found, 3.0, letters) == ["p"]
    assert found.standing("logs", DROPPED, 5, 32.0).expired == []
    assert found.standing("logs", letters, 5, 32.0).expired == ["p"]


def look(found: Sessions, at: float, *ends: int) -> None:
    found.ends.take("east", [("logs", DROPPED.ref), ("logs", FOREIGN.ref)], {("logs", DROPPED.ref): ends}, at)


def test_an_unheard_death_is_known_until_later_looks_at_logs() -> None:
    found = sessions()
    for name, lanes in (("p", ()), ("q", ("dlq",))):
        session = found.open("logs", name, 5, 5, 1.0)
        session.introduce("host", lanes, drill=False, knows_denials=True)
        found.disconnected(session, session.connection, 8.0 if lanes else 5.0)
    look(found, 4.9, 3)
    assert not found.standing("logs", DROPPED, 5, 20.0).unheard, "whoever is still counted may come back"
    assert found.standing("logs", DROPPED, 5, 70.0).unheard
    look(found, 5.0, 4)
    assert not found.standing("logs", DROPPED, 5, 71.0).unheard, "the other one writes dead letters only"
    assert found.standing("logs", replace(DROPPED, ref=ChannelRef("dlq", 1)), 5, 71.0).unheard


def test_a_leader_knows_all_writers_after_a_session_time() -> None:
    found = sessions()
    assert not found.standing("logs", DROPPED, 5, 40.0).unheard
    assert found.standing("logs", FOREIGN, 5, 40.0).unheard
    for at, unheard in ((29.9, True), (30.0, False)):
        found.ends.take("east", [("logs", FOREIGN.ref)], {("logs", FOREIGN.ref): [7]}, at)
        assert found.standing("logs", FOREIGN, 5, 40.0).unheard is unheard


def test_ends_are_known_by_receipts_and_by_what_was_seen() -> None:
    found, channel = sessions(), replace(DROPPED, partitions=2)
    look(found, 1.0, 0, 0)
    assert found.known_ends("logs", channel) == (), "a loss of nothing could be told to nobody"
    found.take_receipts("logs", channel, {1: 9})
    assert found.known_ends("logs", channel) == (0, 9)
    look(found, 2.0, 4, 8)
    look(found, 3.0, 3, 8)  # a leader that has just begun to lead may not know its log's end yet
    assert found.known_ends("logs", channel) == (4, 9)
    found.forget_receipts("logs", channel, (4, 8))
    assert found.receipts("logs", channel) == (0, 9), "what was told meanwhile is not recorded"
    found.forget_receipts("logs", channel, (4, 9))
    assert found.receipts("logs", channel) == ()
    found.ends.take("east", [], {}, 4.0)
    assert found.known_ends("logs", channel) == ()


def test_sessions_are_bounded() -> None:
    found = sessions()
    for number in range(PRODUCER_SESSIONS_MAX):
        found.open("logs", str(number), 0, 0, 1.0)
    with pytest.raises(Exhausted):
        found.open("logs", "one more", 0, 0, 1.0)
    found.open("logs", "7", 0, 0, 2.0)


def test_killed_producers_sessions_are_forgotten_in_any_stream() -> None:
    found = sessions()
    for number in range(PRODUCER_SESSIONS_MAX):
        session = found.open(f"stream-{number % 7}", str(number), 0, 0, 1.0)
        found.disconnected(session, session.connection, 2.0)
    with pytest.raises(Exhausted):
        found.open("logs", "one more", 0, 0, 61.0)
    found.open("logs", "one more", 0, 0, 62.0)
    for number in range(PRODUCER_SESSIONS_MAX - 1):
        found.open("logs", f"later {number}", 0, 0, 63.0)


def test_newcomers_hold_no_drain() -> None:
    found = sessions()
    for number, claimed in enumerate((0, 4, 99)):
        found.open("logs", f"p{number}", claimed, 5, 40.0)
    standing = found.standing("logs", DROPPED, 5, 41.0)
    assert (list(standing.holders), list(standing.expired)) == ([], [])


def test_claims_of_old_routes_hold_drains_only_early_in_a_term() -> None:
    found = sessions()
    found.open("logs", "early", 4, 5, 29.0)
    found.open("logs", "newcomer", 0, 5, 29.0)
    found.open("logs", "late", 4, 5, 31.0)
    standing = found.standing("logs", FOREIGN, 5, 32.0)
    assert (list(standing.holders), list(standing.expired)) == (["early"], ["late"])


def test_producers_are_forgotten_and_nobody_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_routes, "GIVEN_ROUTES_MAX", 2)
    found = sessions()
    first = opened(found, "first", 4, 4, 1.0)
    for name in ("second", "third"):
        opened(found, name, 4, 4, 1.0)
    found.check_given(first, DROPPED, "channel_left")
    assert holders(found, 2.0) == ["first", "second", "third"]


def test_channels_beyond_the_bound_may_have_been_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_routes, "GIVEN_CHANNELS_MAX", 2)
    found = sessions()
    session = opened(found, "p", 4, 4, 1.0)
    found.give(session, 4, [ChannelRef("live", number) for number in (2, 3, 4)])
    found.check_given(session, DROPPED, "channel_left")


def test_what_was_given_without_a_certificate_counts_with_one() -> None:
    found = sessions()
    opened(found, "p", 4, 4, 1.0)
    found.check_given(found.open("logs", "p", 4, 4, 2.0, "spiffe://a/alice"), DROPPED, "channel_left")
    with pytest.raises(EvidenceRefused, match="never given") as refused:
        found.check_given(found.open("logs", "q", 4, 4, 2.0, "spiffe://a/alice"), DROPPED, "channel_left")
    assert refused.value.field == "channel_left"


def test_a_route_of_before_counts_once_a_hello_names_it() -> None:
    found = sessions()
    session = found.open("logs", "p", 0, 5, 10.0)
    found.give(session, 5, [])
    with pytest.raises(EvidenceRefused):
        found.check_given(session, FOREIGN, "channel_left")
    found.check_given(found.open("logs", "p", 4, 5, 11.0), FOREIGN, "channel_left")
    assert holders(found, 12.0, FOREIGN)[:1] == ["p"]
