"""Reports go to the leader, which answers about pathways; another leader begins anew; nonsense is refused by field."""

from typing import TypeVar

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import pathway_pb2 as pb
from braid.kernel.errors import Invalid, NotLeader
from braid.kernel.limits.lagmon.pathways import PATHWAY_PAGE_MAX, PATHWAY_REPORT_EDGES_MAX
from braid.kernel.pathways.edges import Edge, point_hash
from braid.kernel.ports import CallOptions
from braid.rpc.methods import method_path
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh

M = TypeVar("M", bound=Message)
SENT = point_hash("shop", Edge("orders"), 0)
TAKEN = point_hash("shop", Edge("orders", "checkout"), SENT)
ONCE = pb.LatencySketch(zeros=1)


def report(sequence: int = 1, reporter: str = "one") -> api.ReportPathwaysRequest:
    """A report: two records were sent to `orders`, one of them was handed to `checkout` after 200 ms."""
    slow = pb.LatencySketch(bins=[265], counts=[1])
    twice = pb.LatencySketch(zeros=2)
    return api.ReportPathwaysRequest(
        service="shop",
        reporter=reporter,
        sequence=sequence,
        sent_streams=["orders"],
        received_streams=["orders"],
        groups=["checkout"],
        sent=[pb.SentEdge(full=twice, edge=twice)],
        received=[pb.ReceivedEdge(parent_hash=SENT, full=slow, edge=slow)],
        left_out=pb.PathwaysLeftOut(garbage_headers=1, lost_reports=2),
    )


async def call(mesh: Mesh, method: str, request: Message, response: type[M], instance: str = "") -> M:
    """One call, to the leader unless another replica is named."""
    name = instance or next(each for each, replica in mesh.replicas.items() if "lagmon" in each and replica.leading())
    channel = mesh.transport.channel(f"{name}:1")
    return await channel.unary(method_path("lagmon", method), request, response, CallOptions(5.0))


async def tell(mesh: Mesh, request: api.ReportPathwaysRequest, instance: str = "") -> None:
    """Reports."""
    await call(mesh, "ReportPathways", request, api.ReportPathwaysResponse, instance)


async def listed(mesh: Mesh, **request: object) -> api.ListPathwaysResponse:
    """Asks the leader."""
    message = api.ListPathwaysRequest(**request)  # type: ignore[arg-type]  # the tests' own fields
    return await call(mesh, "ListPathways", message, api.ListPathwaysResponse)


async def led(lagmons: int = 1) -> Mesh:
    """A mesh with a leading lagmon."""
    mesh = await Mesh().start(lagmons)
    while not any(replica.leading() for name, replica in mesh.replicas.items() if "lagmon" in name):
        await mesh.clock.sleep(0.05)
    return mesh


def test_a_pathway_is_listed_with_its_latencies() -> None:
    async def play() -> None:
        mesh = await led()
        await tell(mesh, report())
        answer = await listed(mesh)
        (pathway,) = answer.pathways
        first, last = pathway.points
        assert (pathway.name, pathway.partial) == (f"{TAKEN:016x}", False)
        assert (first.hash, first.service, first.stream, first.group) == (SENT, "shop", "orders", "")
        assert (last.hash, last.stream, last.group) == (TAKEN, "orders", "checkout")
        assert last.direction == pb.PATHWAY_DIRECTION_RECEIVED
        assert last.edge.p99_ms == pytest.approx(200, rel=0.02)
        assert first.records_per_s == pytest.approx(2 / (answer.window_ms / 1000))
        assert (answer.left_out.garbage_headers, answer.left_out.lost_reports) == (1, 2)
        assert last.report_time_ms == answer.kept_since_ms <= answer.time_ms

    run_virtual(play())


def test_a_repeated_report_counts_once() -> None:
    async def play() -> None:
        mesh = await led()
        for _ in range(2):
            await tell(mesh, report())
        answer = await listed(mesh)
        assert answer.pathways[0].points[0].records_per_s * answer.window_ms == pytest.approx(2_000)

    run_virtual(play())


def test_followers_send_reports_to_the_leader() -> None:
    async def play() -> None:
        mesh = await led(2)
        follower = next(name for name, replica in mesh.replicas.items() if "lagmon" in name and not replica.leading())
        with pytest.raises(NotLeader):
            await tell(mesh, report(), follower)

    run_virtual(play())


def test_another_leader_begins_without_pathways() -> None:
    async def play() -> None:
        mesh = await led(2)
        leader = next(name for name, replica in mesh.replicas.items() if "lagmon" in name and replica.leading())
        await tell(mesh, report())
        mesh.processes[leader].kill()
        del mesh.replicas[leader]
        while not any(replica.leading() for name, replica in mesh.replicas.items() if "lagmon" in name):
            await mesh.clock.sleep(0.05)
        answer = await listed(mesh)
        assert not answer.pathways and not answer.kept_since_ms
        await tell(mesh, report())
        assert len((await listed(mesh)).pathways) == 1

    run_virtual(play())


def test_a_leader_that_led_before_begins_anew() -> None:
    async def play() -> None:
        mesh = await led()
        await tell(mesh, report())
        replica = mesh.replicas["lagmon-0"]
        first = replica.leader_epoch
        replica.step_down("a test asks")
        while not (replica.leading() and replica.leader_epoch != first):
            await mesh.clock.sleep(0.05)
        assert not (await listed(mesh)).pathways

    run_virtual(play())


def test_pages_have_every_pathway_once() -> None:
    async def play() -> None:
        mesh = await led()
        request = report()
        del request.received[:]
        for number in range(5):
            request.sent_streams.append(f"extra-{number}")
            request.sent.add(stream=1 + number, full=ONCE, edge=ONCE)
        await tell(mesh, request)
        names, token = [], ""
        while True:
            page = await listed(mesh, page_size=2, page_token=token)
            names += [each.name for each in page.pathways]
            token = page.next_page_token
            if not token:
                break
        assert names == sorted(names) and len(set(names)) == 6
        assert [len(each.points) for each in (await listed(mesh, stream="extra-3")).pathways] == [1]
        assert len((await listed(mesh, page_size=10 * PATHWAY_PAGE_MAX)).pathways) == 6

    run_virtual(play())


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ('service: "Shop?"', "service"),
        ('reporter: ""', "reporter"),
        ("sequence: 0", "sequence"),
        ("left_out {records: -1}", "left_out"),
        ('sent_streams: "a/b"', "sent_streams"),
        ('groups: ""', "groups"),
        ("sent {stream: 1}", "sent.stream"),
        ("received {stream: -1}", "received.stream"),
        ("received {group: 7}", "received.group"),
        ("sent {}", "sent.edge"),
        ("sent {edge {zeros: 1}}", "sent.edge"),
        ("sent {edge {bins: 1}}", "sent.edge"),
        ("sent {full {zeros: -1}}", "sent.full.counts"),
        ("sent {full {bins: 1 counts: 0}}", "sent.full.counts"),
        ("sent {full {zeros: 9007199254740993}}", "sent.full.counts"),
        ("sent {full {bins: [2, 1] counts: [1, 1]}}", "sent.full.bins"),
        ("sent {full {bins: 9999 counts: 1}}", "sent.full.bins"),
    ],
)
def test_a_report_of_nonsense_is_refused_by_field(said: str, field: str) -> None:
    async def play() -> None:
        mesh = await led()
        request = report()
        request.MergeFrom(text_format.Parse(said, api.ReportPathwaysRequest()))
        for name in ("reporter", "sequence"):
            if said.startswith(name):
                request.ClearField(name)
        with pytest.raises(Invalid) as refusal:
            await tell(mesh, request)
        assert refusal.value.field == field
        assert not (await listed(mesh)).pathways

    run_virtual(play())


def test_a_report_of_too_many_edges_is_refused() -> None:
    async def play() -> None:
        mesh, request = await led(), report()
        for number in range(PATHWAY_REPORT_EDGES_MAX):
            request.sent.add(parent_hash=number, full=ONCE, edge=ONCE)
        with pytest.raises(Invalid, match="too many"):
            await tell(mesh, request)

    run_virtual(play())


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"page_size": -1}, "page_size"),
        ({"window_ms": -1}, "window_ms"),
        ({"window_ms": 3_600_001}, "window_ms"),
        ({"page_token": "one"}, "page_token"),
    ],
)
def test_a_question_out_of_form_is_refused(request_: dict[str, object], field: str) -> None:
    async def play() -> None:
        mesh = await led()
        with pytest.raises(Invalid) as refusal:
            await listed(mesh, **request_)
        assert refusal.value.field == field

    run_virtual(play())
