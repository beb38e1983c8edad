"""Which resources requests are about: named, unnamed, behind a group or a replay, and in later messages."""

import pytest

from braid.api.assigner.v1.group_pb2 import GroupSpec
from braid.api.assigner.v1.join_pb2 import Heartbeat, JoinRequest, MemberHello
from braid.api.dlq.v1 import dlq_service_pb2 as dlq
from braid.api.dlq.v1.replay_pb2 import ReplaySpec
from braid.api.mesh.v1.event_pb2 import ListEventsRequest
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1.grant_pb2 import CheckAccessRequest, ListGrantsRequest
from braid.api.registry.v1.route_pb2 import ChannelLeft, ProducerHello, SendErrors, WatchRoutesRequest
from braid.kernel.access.requests import Lookup, Need, asks_about_itself, needs_of, says_hello, strays
from braid.kernel.access.roles import MESH, Action, Resource, ResourceKind
from braid.kernel.access.table import Row, row_of

STREAM, GROUP = ResourceKind.STREAM, ResourceKind.GROUP
LOOKUP = Lookup(lambda group: ("metrics",) if group == "indexer" else (), lambda id: "logs" if id == "R1" else "")


def row(service: str, method: str) -> Row:
    found = row_of(service, method)
    assert found is not None
    return found


def needs(service: str, method: str, request: object) -> list[str]:
    return [f"{each.action.value} {each.resource}" for each in needs_of(row(service, method), request, LOOKUP)]


def test_a_join_needs_its_group_and_every_stream_of_it() -> None:
    hello = MemberHello(group="indexer", spec=GroupSpec(streams=["logs", "logs"]))
    assert needs("assigner", "Join", JoinRequest(hello=hello)) == [
        "consume group/indexer",
        "consume stream/logs",
        "consume stream/metrics",
    ]


def test_a_join_without_a_group_needs_every_group() -> None:
    hello = MemberHello(spec=GroupSpec(streams=["logs"]))
    assert needs("assigner", "Join", JoinRequest(hello=hello))[0] == "consume group/*"
    assert needs("assigner", "Join", JoinRequest(heartbeat=Heartbeat())) == ["consume group/*"]


def test_a_list_that_names_nothing_is_about_everything() -> None:
    assert needs("registry", "ListStreams", registry.ListStreamsRequest()) == ["view stream/*"]
    assert needs("registry", "ListChannels", registry.ListChannelsRequest()) == ["view stream/*"]
    assert needs("registry", "ListChannels", registry.ListChannelsRequest(cluster="east")) == ["view cluster/east"]


def test_a_channel_counts_as_its_stream() -> None:
    assert needs("registry", "CloseChannel", registry.CloseChannelRequest(channel="logs/live/1")) == [
        "change stream/logs"
    ]


@pytest.mark.parametrize(
    ("history", "need"),
    [
        ("", "view mesh"),
        ("stream", "view stream/*"),
        ("stream/logs", "view stream/logs"),
        ("cluster/east", "view cluster/east"),
        ("archive", "view mesh"),
        ("mesh/x", "view mesh"),
        ("replay/R1", "view stream/logs"),
        ("replay/R2", "view mesh"),
        ("replay", "view mesh"),
    ],
)
def test_a_history_is_about_what_it_is_of(history: str, need: str) -> None:
    assert needs("registry", "ListEvents", ListEventsRequest(history=history)) == [need]


def test_a_replay_counts_as_its_stream_or_if_unknown_as_the_mesh() -> None:
    assert needs("dlq", "CancelReplay", dlq.CancelReplayRequest(id="R1")) == ["operate stream/logs"]
    assert needs("dlq", "CancelReplay", dlq.CancelReplayRequest(id="R2")) == ["operate mesh"]


def test_a_replay_to_elsewhere_needs_the_right_to_produce_there() -> None:
    spec = ReplaySpec(stream="logs", destination="audit/live")
    assert needs("dlq", "CreateReplay", dlq.CreateReplayRequest(spec=spec)) == [
        "operate stream/logs",
        "produce stream/audit",
    ]
    spec = ReplaySpec(destination="audit")
    assert needs("dlq", "CreateReplay", dlq.CreateReplayRequest(spec=spec))[0] == "operate stream/*"


def test_who_consumes_may_write_dead_letters_and_nothing_else() -> None:
    only = WatchRoutesRequest(hello=ProducerHello(stream="logs", lanes=["dlq"]))
    assert needs("registry", "WatchRoutes", only) == ["consume stream/logs"]
    for lanes in ([], ["dlq", "live"], ["live"]):
        hello = WatchRoutesRequest(hello=ProducerHello(stream="logs", lanes=lanes))
        assert needs("registry", "WatchRoutes", hello) == ["produce stream/logs"]


def test_a_later_message_about_another_stream_strays() -> None:
    watch = row("registry", "WatchRoutes")
    hello = needs_of(watch, WatchRoutesRequest(hello=ProducerHello(stream="logs")), LOOKUP)
    same = WatchRoutesRequest(channel_left=ChannelLeft(channel="logs/live/1"))
    other = WatchRoutesRequest(channel_left=ChannelLeft(channel="pay/live/1"))
    assert strays(watch, same, hello) == []
    assert strays(watch, WatchRoutesRequest(send_errors=SendErrors(cluster="east")), hello) == []
    assert strays(watch, other, hello) == [Resource(STREAM, "pay")]
    assert says_hello(watch, WatchRoutesRequest(hello=ProducerHello())) and not says_hello(watch, other)


def test_everybody_may_ask_about_its_own_rights() -> None:
    listing, checking = row("registry", "ListGrants"), row("registry", "CheckAccess")
    assert asks_about_itself(listing, ListGrantsRequest(principal="dns:me"), "dns:me")
    assert not asks_about_itself(listing, ListGrantsRequest(), "dns:me"), "an empty name lists all of them"
    assert asks_about_itself(checking, CheckAccessRequest(), "dns:me")
    assert not asks_about_itself(checking, CheckAccessRequest(principal="dns:you"), "dns:me")
    assert needs_of(listing, ListGrantsRequest(principal="dns:you"), LOOKUP) == (Need(Action.VIEW, MESH),)
