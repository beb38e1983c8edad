"""One trace from an operator's command over the group's decisions to the members that acknowledge their leases."""

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.api.assigner.v1.assigner_service_pb2 import DrainMemberRequest
from braid.api.assigner.v1.group_pb2 import Group
from braid.telemetry.tracing import started, tracer
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh

CALL = "braid.api.assigner.v1.AssignerService/DrainMember"


def test_a_drain_is_one_trace_to_the_members(spans: InMemorySpanExporter) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        one, _ = await mesh.joined(2)
        await mesh.settled(2)
        await mesh.host.clock.sleep(5)
        spans.clear()
        found, client = tracer(), mesh.client("operator")
        assert found is not None
        request = DrainMemberRequest(group="indexer", member=one.session.member_id, drained=True, reason="update")
        with started(found, "braid drain", trace.SpanKind.INTERNAL, {}):
            await client.unary("DrainMember", request, Group)
        await mesh.until(lambda: not mesh.state().held_by(one.session.member_id))
        await mesh.host.clock.sleep(5)

    run_virtual(scenario())
    ways = {tuple(way(spans, each)) for each in spans.get_finished_spans() if each.name == "apply leases"}
    begun = ("braid drain", CALL, CALL, "decide group")
    assert {each[:4] for each in ways} == {begun}
    assert {each[-2:] for each in ways} == {("push leases", "apply leases")}
    pushed = [each for each in spans.get_finished_spans() if each.name == "push leases"]
    assert all((each.attributes or {}).get("braid.acknowledged") for each in pushed)


def way(spans: InMemorySpanExporter, span: ReadableSpan) -> list[str]:
    """Names of a span's ancestors, from the first down to it."""
    wanted = span.parent.span_id if span.parent is not None else 0
    above = [each for each in spans.get_finished_spans() if each.context is not None and each.context.span_id == wanted]
    return [*(way(spans, above[0]) if above else []), span.name]
