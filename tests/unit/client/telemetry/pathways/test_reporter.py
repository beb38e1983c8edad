"""A process reports what it measured every ten seconds, once, and counts what did not arrive."""

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.client.telemetry.pathways.recorder import Recorder
from braid.client.telemetry.pathways.reporter import Reporter, report
from braid.kernel.limits.lagmon.pathways import PATHWAY_BUCKET_MS, PATHWAY_NODES_MAX, PATHWAY_REPORT_DELAY_SECONDS
from braid.kernel.pathways.edges import Edge
from braid.kernel.pathways.header import encode_context
from braid.rpc.directory import Directory
from braid.rpc.mesh_client import ServiceClient
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import Mesh

REPORT_SECONDS = PATHWAY_BUCKET_MS / 1000 + PATHWAY_REPORT_DELAY_SECONDS + 0.5


class Followed:
    """A process that measures and reports, beside a lagmon that leads."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.directory = Directory(mesh.transport, mesh.me.host, ["lagmon-0:1"])
        self.client = ServiceClient(self.directory, "lagmon", mesh.me.host, principal="shop-1")
        self.recorder = Recorder("shop")
        self.reporter = Reporter(mesh.me.host, self.client, self.recorder)

    def measure(self, count: int = 1) -> None:
        """Sends records to `orders`, which `checkout` is handed at once."""
        now_ms = self.mesh.clock.now_ms()
        for _ in range(count):
            context = self.recorder.sent(Edge("orders"), None, now_ms, 0)
            assert self.recorder.received(Edge("orders", "checkout"), encode_context(context), now_ms, 0)

    async def listed(self) -> api.ListPathwaysResponse:
        """Asks the leader."""
        return await self.client.unary("ListPathways", api.ListPathwaysRequest(), api.ListPathwaysResponse)


async def followed() -> Followed:
    """A process beside a mesh that serves."""
    mesh = await Mesh().start()
    found = Followed(mesh)
    await found.directory.open(5.0)
    return found


def rates(answer: api.ListPathwaysResponse) -> list[float]:
    """How many records each point of the only pathway saw."""
    (pathway,) = answer.pathways
    return [round(point.records_per_s * answer.window_ms / 1000) for point in pathway.points]


def test_what_is_measured_is_reported_every_ten_seconds() -> None:
    async def play() -> None:
        at = await followed()
        at.reporter.start()
        for _ in range(3):
            at.measure(4)
            await at.mesh.clock.sleep(REPORT_SECONDS)
        assert rates(await at.listed()) == [12, 12]

    run_virtual(play())


def test_the_last_measurements_are_reported_at_the_end() -> None:
    async def play() -> None:
        at = await followed()
        at.reporter.start()
        at.measure()
        await at.reporter.close()
        await at.reporter.close()
        assert rates(await at.listed()) == [1, 1]

    run_virtual(play())


def test_an_idle_process_reports_nothing() -> None:
    async def play() -> None:
        at = await followed()
        at.reporter.start()
        await at.mesh.clock.sleep(5 * REPORT_SECONDS)
        await at.reporter.close()
        assert not (await at.listed()).kept_since_ms

    run_virtual(play())


def test_a_lost_report_is_counted_by_the_next() -> None:
    async def play() -> None:
        at = await followed()
        at.reporter.start()
        at.mesh.network.cut("test", "lagmon-0")
        at.measure()
        await at.mesh.clock.sleep(REPORT_SECONDS + 5.0)
        assert at.recorder.counts.lost == 1
        at.mesh.network.heal("test", "lagmon-0")
        at.measure()
        await at.mesh.clock.sleep(REPORT_SECONDS + 5.0)
        answer = await at.listed()
        assert rates(answer) == [1, 1], "what was lost is not sent again"
        assert answer.left_out.lost_reports == 1

    run_virtual(play())


def test_a_report_that_the_end_cuts_off_is_counted() -> None:
    async def play() -> None:
        at = await followed()
        at.reporter.start()
        at.mesh.network.cut("test", "lagmon-0")
        at.measure()
        await at.mesh.clock.sleep(REPORT_SECONDS)
        assert at.recorder.counts.lost == 0, "it is under way"
        await at.reporter.close()
        assert at.recorder.counts.lost == 1

    run_virtual(play())


def test_reports_say_what_was_left_out_since_the_last() -> None:
    recorder = Recorder("shop")
    for number in range(PATHWAY_NODES_MAX + 3):
        recorder.sent(Edge(f"stream-{number}"), None, 1_790_000_000_000, 1)
    assert recorder.received(Edge("orders", "checkout"), b"garbage", 1_790_000_000_000, 0) is None
    before, counts = recorder.counts._replace(garbage=0, left_out=2), recorder.counts
    request = report("shop", recorder.take(), counts, before)
    assert len(request.sent) == len(request.sent_streams) == PATHWAY_NODES_MAX
    assert (request.left_out.garbage_headers, request.left_out.records) == (1, 2 * 3 - 2)
