"""One trace from a caller's span to a producer's acknowledgement, over a registry on virtual time."""

from collections.abc import Callable, Coroutine
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from braid.api.registry.v1 import route_pb2
from braid.kernel.ports import DuplexCall
from braid.telemetry.tracing import started, tracer
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import DRAINED, Mesh, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
MOVE = "braid.api.registry.v1.RegistryService/MoveStream"


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def opened(mesh: Mesh) -> DuplexCall:
    """A producer that has its first route, which belongs to no trace."""
    call = await mesh.client.duplex("WatchRoutes", route_pb2.WatchRoutesResponse)
    hello = route_pb2.ProducerHello(protocol_version=1, producer_id="p", stream="logs")
    await call.send(route_pb2.WatchRoutesRequest(hello=hello))
    first = await routed(call)
    assert first.traceparent == ""
    await acknowledge(call, first.route.revision)
    return call


async def routed(call: DuplexCall) -> route_pb2.WatchRoutesResponse:
    """The next route."""
    while True:
        message = await call.receive()
        assert isinstance(message, route_pb2.WatchRoutesResponse)
        if message.HasField("route"):
            return message


async def acknowledge(call: DuplexCall, revision: int) -> None:
    acknowledged = route_pb2.RouteAcknowledged(revision=revision)
    await call.send(route_pb2.WatchRoutesRequest(acknowledged=acknowledged))


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [each for each in spans.get_finished_spans() if each.name == name]
    return found


def events_of(span: ReadableSpan) -> str:
    return str((span.attributes or {}).get("braid.events", ""))


def way(spans: InMemorySpanExporter, span: ReadableSpan) -> list[str]:
    """Names of the span's ancestors, from the first down to it."""
    wanted = span.parent.span_id if span.parent is not None else 0
    parent = next(
        (each for each in spans.get_finished_spans() if each.context and each.context.span_id == wanted), None
    )
    return [*(way(spans, parent) if parent is not None else []), span.name]


def test_a_move_goes_on_to_the_producers_acknowledgement(spans: InMemorySpanExporter) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        call, found = await opened(mesh), tracer()
        assert found is not None
        with started(found, "braid move", trace.SpanKind.INTERNAL, {}):
            await mesh.move(to_cluster="west")
        message = await routed(call)
        assert message.traceparent
        await mesh.me.host.clock.sleep(1)
        assert "push route" not in {each.name for each in spans.get_finished_spans()}
        await acknowledge(call, message.route.revision)
        await mesh.me.host.clock.sleep(1)
        pushed = named(spans, "push route")
        assert pushed.context is not None
        assert message.traceparent.split("-")[2] == trace.format_span_id(pushed.context.span_id)
        assert way(spans, pushed) == ["braid move", MOVE, MOVE, "decide stream", "push route"]
        assert (pushed.attributes or {})["braid.acknowledged"] is True
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 60)
        drained = [each for each in spans.get_finished_spans() if "ChannelDrained" in events_of(each)]
        assert {way(spans, each)[0] for each in drained} == {"braid move"}

    play(scene)


def test_a_producer_that_leaves_ends_its_push_as_failed(spans: InMemorySpanExporter) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        call = await opened(mesh)
        await mesh.move(to_cluster="west")
        await routed(call)
        await call.close()
        await mesh.me.host.clock.sleep(5)
        pushed = named(spans, "push route")
        assert (pushed.attributes or {})["error.type"] == "stream_ended"

    play(scene)


def test_what_a_leader_begins_by_itself_is_a_trace_of_its_own(spans: InMemorySpanExporter) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.me.host.clock.sleep(30)
        decided = [each for each in spans.get_finished_spans() if each.name.startswith("decide")]
        own = [each for each in decided if each.parent is None]
        assert own
        assert all((each.attributes or {})["braid.events.count"] for each in own)

    play(scene)


def test_without_tracing_no_span_is_begun_anywhere() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        call = await opened(mesh)
        await mesh.move(to_cluster="west")
        message = await routed(call)
        assert message.traceparent == ""
        await acknowledge(call, message.route.revision)

    begun: list[str] = []
    start = trace.ProxyTracer.start_span

    def counted(self: trace.ProxyTracer, name: str, *arguments: Any, **named: Any) -> trace.Span:
        begun.append(name)
        return start(self, name, *arguments, **named)

    trace.ProxyTracer.start_span = counted  # type: ignore[method-assign]
    try:
        play(scene)
    finally:
        trace.ProxyTracer.start_span = start  # type: ignore[method-assign]
    assert not begun
