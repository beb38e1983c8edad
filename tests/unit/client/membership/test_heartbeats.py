"""The contents of carried heartbeat messages: changes only, within the limit of a message."""

from collections.abc import Callable

from braid.api.assigner.v1 import join_pb2
from braid.client.membership.heartbeats import Heartbeats, Seat, requests
from braid.kernel.limits.assigner.leases import BEAT_MEMBERS_MAX, BEAT_NEWS_BYTES, BEAT_TELL_AGAIN
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from tests.support.scripted_control import virtual
from tests.support.virtual_time import VirtualProcess, running_loop


def seat(ticket: int = 7, loads: Callable[[], join_pb2.Heartbeat] = join_pb2.Heartbeat) -> Seat:
    """One of a member that says this with its heartbeats, in a process that reaches nobody."""
    host = VirtualProcess(running_loop(), "web", 1).host
    network = MemoryNetwork(host.clock, host.randomness)
    directory = Directory(MemoryTransport(network, "web"), host, ["nobody:1"])
    heartbeats = Heartbeats(host, ServiceClient(directory, "assigner", host))
    made = heartbeats.seat(ticket, 0.5, 3.0, loads, lambda sent_at: None)
    made.told = ()
    return made


def load(size: int) -> join_pb2.Heartbeat:
    """A heartbeat of about so many bytes."""
    return join_pb2.Heartbeat(loads=[join_pb2.LeaseLoad(lease="x" * size)])


@virtual
async def test_who_has_nothing_to_tell_is_a_ticket_only() -> None:
    ((seats, request),) = requests([seat(7), seat(9)])
    assert [each.ticket for each in seats] == list(request.tickets) == [7, 9]
    assert not request.news


@virtual
async def test_a_silent_member_reports_all_clusters_as_reachable() -> None:
    new = seat(7)
    new.told = None
    ((_, first),) = requests([new])
    ((_, second),) = requests([new])
    assert [(each.ticket, each.HasField("unreachable")) for each in first.news] == [(7, True)]
    assert not first.news[0].unreachable.clusters
    assert not second.news


@virtual
async def test_loads_go_with_every_heartbeat_that_has_some() -> None:
    told = seat(loads=lambda: load(10))
    for _ in range(2):
        ((_, request),) = requests([seat(1), told])
        assert [(each.ticket, len(each.loads)) for each in request.news] == [(7, 1)]
        assert not request.news[0].HasField("unreachable")


@virtual
async def test_unreachable_clusters_are_sent_on_change_and_regularly() -> None:
    away: list[str] = []
    told = seat(loads=lambda: join_pb2.Heartbeat(unreachable_clusters=away))

    def heard() -> list[str] | None:
        news = told.news()
        return list(news.unreachable.clusters) if news is not None and news.HasField("unreachable") else None

    assert heard() is None
    away.append("east")
    assert heard() == ["east"]
    again = [heard() for _ in range(2 * BEAT_TELL_AGAIN)]
    assert [each for each in again if each is not None] == [["east"]] * 2
    away.clear()
    assert heard() == []
    assert [heard() for _ in range(2 * BEAT_TELL_AGAIN)] == [None] * 2 * BEAT_TELL_AGAIN


@virtual
async def test_a_message_is_bounded_in_members_and_in_bytes() -> None:
    crowd = [seat()] * (BEAT_MEMBERS_MAX + 1)
    assert [len(request.tickets) for _, request in requests(crowd)] == [BEAT_MEMBERS_MAX, 1]
    third = BEAT_NEWS_BYTES // 3
    large = [seat(number, lambda: load(third)) for number in range(5)]
    sizes = [(len(seats), request.ByteSize()) for seats, request in requests(large)]
    assert [count for count, _ in sizes] == [2, 2, 1]
    assert max(size for _, size in sizes) < BEAT_NEWS_BYTES
    huge = [seat(1), seat(2, lambda: load(2 * BEAT_NEWS_BYTES)), seat(3)]
    assert [list(request.tickets) for _, request in requests(huge)] == [[1], [2], [3]]
    assert list(requests([])) == []


@virtual
async def test_a_void_seat_is_not_carried_again() -> None:
    told = seat()
    told.void()
    await told.carried(0.0, 0.0, ())
    assert not told.taken
