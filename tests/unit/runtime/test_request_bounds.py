"""Texts and lists of a request are bounded wherever they are in it; the refusal names field, number and remedy."""

import pytest
from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import join_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1 import route_pb2, stream_pb2
from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import REQUEST_ITEMS_MAX, REQUEST_TEXT_CHARS_MAX
from braid.runtime.request_bounds import check_hello, check_request

FITS = "x" * REQUEST_TEXT_CHARS_MAX
LONG = FITS + "x"


def stream(**spec: object) -> Message:
    return registry.CreateStreamRequest(name="s", spec=stream_pb2.StreamSpec(**spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (registry.GetStreamRequest(name=LONG), "name"),
        (stream(clusters=["east", LONG]), "spec.clusters"),
        (stream(topic_config={"compression.type": LONG}), "spec.topic_config"),
        (stream(topic_config={LONG: "zstd"}), "spec.topic_config"),
        (stream(lanes={LONG: stream_pb2.LaneSpec()}), "spec.lanes"),
        (assigner.ResetProgressRequest(offsets=[assigner.ResetOffset(lease=LONG)]), "offsets.lease"),
        (assigner.PreviewPlacementRequest(lost_clusters=[""] * (REQUEST_ITEMS_MAX + 1)), "lost_clusters"),
    ],
)
def test_what_is_beyond_bounds_is_refused(request_: Message, field: str) -> None:
    with pytest.raises(Invalid, match="are more than") as refused:
        check_request(request_)
    assert refused.value.field == field and "at most" in refused.value.remedy


def test_what_is_within_bounds_passes() -> None:
    check_request(stream(clusters=[FITS] * 3, topic_config={FITS: FITS}, lanes={FITS: stream_pb2.LaneSpec()}))
    check_request(assigner.PreviewPlacementRequest(lost_clusters=[""] * REQUEST_ITEMS_MAX))


@pytest.mark.parametrize(
    ("hello", "field"),
    [
        (join_pb2.JoinRequest(hello=join_pb2.MemberHello(client_id=LONG)), "hello.client_id"),
        (join_pb2.JoinRequest(hello=join_pb2.MemberHello(resume_secret=LONG.encode())), "hello.resume_secret"),
        (route_pb2.WatchRoutesRequest(hello=route_pb2.ProducerHello(host=LONG)), "hello.host"),
        (route_pb2.WatchRoutesRequest(hello=route_pb2.ProducerHello(capabilities=[LONG])), "hello.capabilities"),
    ],
)
def test_a_hello_beyond_bounds_is_refused(hello: Message, field: str) -> None:
    with pytest.raises(Invalid, match="are more than") as refused:
        check_hello(hello)
    assert refused.value.field == field


def test_a_hello_may_name_as_many_leases_as_its_bytes_allow() -> None:
    held = [join_pb2.HeldLease(lease="logs/live/1/0")] * (REQUEST_ITEMS_MAX + 1)
    check_hello(join_pb2.JoinRequest(hello=join_pb2.MemberHello(client_id=FITS, held=held)))
