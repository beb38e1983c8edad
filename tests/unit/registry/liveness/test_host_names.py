"""A connection is on one host, whatever names its streams give."""

from braid.kernel.limits.health import COMPLAINT_PAUSE_SECONDS
from services.registry.liveness.host_names import HostNames


def test_streams_of_one_connection_that_name_many_hosts_count_for_the_first() -> None:
    names = HostNames()
    assert [names.enter("ipv4:10.0.0.7:4321", f"host-{number}", 1.0) for number in range(100)] == ["host-0"] * 100
    assert len(names) == 1


def test_other_connections_are_on_the_hosts_that_they_name() -> None:
    names = HostNames()
    found = [names.enter(f"ipv4:10.0.0.7:{port}", host, 1.0) for port, host in enumerate(("a", "b", "a"))]
    assert found == ["a", "b", "a"]


def test_a_connection_that_ends_its_stream_and_names_another_host_at_once_stays_on_the_first() -> None:
    names = HostNames()
    for number in range(100):
        assert names.enter("c", f"host-{number}", 1.0 + number / 100) == "host-0"
        names.leave("c", 1.0 + number / 100)


def test_a_stream_that_stays_open_keeps_the_name_while_others_come_and_go() -> None:
    names = HostNames()
    names.enter("c", "first", 1.0)
    for at in (2.0, 20.0, 200.0):
        assert names.enter("c", "other", at) == "first"
        names.leave("c", at)


def test_a_name_is_forgotten_once_what_was_said_under_it_counts_no_more() -> None:
    names = HostNames()
    for port in range(1_000):
        names.enter(f"c{port}", f"host-{port}", 1.0)
        names.leave(f"c{port}", 1.0)
    assert names.enter("c0", "late", 1.0 + COMPLAINT_PAUSE_SECONDS) == "host-0"
    names.leave("c0", 2.0 + COMPLAINT_PAUSE_SECONDS)
    assert names.enter("c1", "another", 1.5 + COMPLAINT_PAUSE_SECONDS) == "another"
    assert len(names) == 2, "the one that was in use again, and the one that is"
