"""A `braid move` of a stream that producers of other processes send to, and what a collector must have seen of it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_ACTIVE, LaneSpec, Stream, StreamSpec
from testbed.patience import wait
from tests.support.otlp_collector import Collector, SeenSpan

ROOT: Final = Path(__file__).parents[2]
BIN: Final = Path(sys.executable).parent
PRODUCERS: Final = 2
HANGS_SECONDS: Final = 60.0
SETTINGS: Final = {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BLRP_SCHEDULE_DELAY": "100"}


def move(stack: ExitStack, endpoint: str, collector: Collector) -> SeenSpan:
    """Moves a stream of a mesh; returns the command's span when all that follows has come to the collector.

    Args:
        stack: What ends the producers.
        endpoint: The mesh's.
        collector: Where everything arrives in the end.
    """
    carries = asyncio.run(create(endpoint))
    for number in range(PRODUCERS):
        stack.enter_context(producing(number, endpoint, os.environ))
    other = "west" if carries == "east" else "east"
    command = [str(BIN / "braid"), "move", "stream/logs", "--to", other, "--endpoint", endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS)
    assert done.returncode == 0, done.stderr
    wait(lambda: len(applied(collector)) == PRODUCERS, "every producer acknowledges in the trace")
    root = the_move(collector)
    wait(lambda: logged(collector, root), "a service's log belongs to the trace")
    wait(lambda: audited(collector), "the move is in the audit's logs")
    return root


@contextmanager
def producing(number: int, endpoint: str, environment: Mapping[str, str]) -> Iterator[None]:
    """An application under the real `opentelemetry-instrument`."""
    command = [str(BIN / "opentelemetry-instrument"), sys.executable, "tests/support/traced_producer.py", endpoint]
    named = {**environment, "OTEL_SERVICE_NAME": f"shop-{number}", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=named, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "sending\n", process.communicate(timeout=HANGS_SECONDS)[1]
        yield
    finally:
        _, complaints = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0, complaints


async def create(endpoint: str) -> str:
    """Makes stream `logs`; returns the cluster that carries its lane."""
    async with braid.connect(endpoint) as mesh:
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=2)}, replication_factor=1)
        asked = CreateStreamRequest(name="logs", spec=spec)
        made = await mesh.service("registry").unary("CreateStream", asked, Stream)
    return next(each.cluster for each in made.status.channels if each.state == CHANNEL_STATE_ACTIVE)


def logged(collector: Collector, root: SeenSpan) -> bool:
    """Whether the registry has logged what followed from the move, in its trace."""
    return any(each.trace_id == root.trace_id and each.body == "stream" for each in collector.logs())


def audited(collector: Collector) -> bool:
    """Whether the call is recorded, with the command that would do the same."""
    calls = [each.attributes for each in collector.logs() if each.event == "braid.audit.call"]
    moves = [each for each in calls if str(each.get("rpc.method", "")).endswith("/MoveStream")]
    return [(each["braid.audit.outcome"], each["braid.resource"]) for each in moves] == [("ok", "stream/logs")]


def the_move(collector: Collector) -> SeenSpan:
    """The first span of the command's trace."""
    (found,) = [each for each in collector.spans() if each.name == "braid move"]
    return found


def applied(collector: Collector) -> set[str]:
    """Producers whose acknowledgement is in the command's trace."""
    spans = collector.spans()
    traces = {each.trace_id for each in spans if each.name == "braid move"}
    return {each.service for each in spans if each.name == "apply route" and each.trace_id in traces}


def judge(collector: Collector, root: SeenSpan) -> None:
    """Every span of the way is in the trace of the command, below the span that led to it."""
    trace = {each.span_id: each for each in collector.spans() if each.trace_id == root.trace_id}
    assert root.service == "braid-cli"
    ways = {tuple(way(trace, each)) for each in trace.values() if each.name == "apply route"}
    call = "braid.api.registry.v1.RegistryService/MoveStream"
    assert ways == {("braid move", call, call, "decide stream", "push route", "apply route")}
    pushed = [each for each in trace.values() if each.name == "push route"]
    assert [each.attributes.get("braid.acknowledged") for each in pushed] == [True] * PRODUCERS
    assert {each.service for each in pushed} == {"braid-registry"}
    assert "append stream" in {each.name for each in trace.values()}


def way(trace: Mapping[bytes, SeenSpan], span: SeenSpan) -> Iterator[str]:
    """Names of a span's ancestors, from the first span down to it."""
    if span.parent_id:
        yield from way(trace, trace[span.parent_id])
    yield span.name
