"""Seconds of hostile calls to every RPC in `make test`; an hour in `make test-all`; and judges find what is planted."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.dlq.v1 import dlq_service_pb2 as dlq
from braid.api.mesh.v1 import event_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.api.registry.v1 import stream_pb2
from braid.kernel.decider import Context
from braid.kernel.errors import BraidError, Invalid
from braid.kernel.limits.names import PARTITIONS_MAX, STREAM_PARTITIONS_MAX
from braid.kernel.limits.rpc import REQUEST_ITEMS_MAX, REQUEST_TEXT_CHARS_MAX
from braid.kernel.ports import Caller, CallOptions
from braid.rpc.methods import method_path
from services.registry.domain.streams import StreamDecider
from services.registry.model.stream_events import StreamEvent
from services.registry.model.streams import Stream
from services.registry.service import RegistryService
from tests.simulation.fuzzing import play as playing
from tests.simulation.fuzzing.coverage import Coverage
from tests.simulation.fuzzing.mesh import FuzzedLoop, FuzzedMesh
from tests.simulation.fuzzing.play import Stuck, play, rss_bytes
from tests.simulation.fuzzing.samples import EARLY, samples
from tests.unit.kernel.access.api import Method, methods

CALLS = 600
ROUNDS_MAX = 10  # to call each method once: those that take things away are called seldom
SECONDS = 30.0  # of processor time
WIDE_MOVE_BYTES_MAX = 80 << 20  # measured: 35 to 45 MiB
DIGITS = "9" * 5_000
GET_CLUSTER = [each for each in methods() if (each.service, each.name) == ("registry", "GetCluster")]
pytestmark = pytest.mark.slow
T = TypeVar("T")
Handler = Callable[[object, Caller], Awaitable[object]]


def fuzz(seconds: float, first: int, rounds_min: int) -> None:
    """Plays rounds for so many seconds, and until each method was called; prints coverage, fails on what they find."""
    coverage, began, seed = Coverage(), time.process_time(), first
    faults: list[object] = []
    while (
        seed < first + rounds_min
        or time.process_time() - began < seconds
        or (seed < first + ROUNDS_MAX and uncalled(coverage))
    ):
        faults += play(seed, CALLS, coverage).faults
        seed += 1
    print(coverage.table())
    assert not faults, "\n".join(map(str, faults[:5]))
    assert coverage.calls == CALLS * (seed - first)
    assert not uncalled(coverage), "a method was never called"


def uncalled(coverage: Coverage) -> list[str]:
    """Methods that no round has called so far."""
    return [each.method.name for each in coverage.each() if not each.calls]


def test_hostile_calls_of_every_method_break_nothing() -> None:
    fuzz(SECONDS, first=1, rounds_min=3)


@pytest.mark.extended
@pytest.mark.timeout(5_400)
def test_an_hour_of_hostile_calls_breaks_nothing() -> None:
    fuzz(3_600.0, first=1_000_000, rounds_min=100)


def test_a_seed_repeats_its_calls() -> None:
    tables = []
    for _ in range(2):
        coverage = Coverage()
        assert not play(7, 150, coverage).faults
        tables.append(coverage.table())
    assert tables[0] == tables[1]
    assert re.search(r"registry/CreateStream +\d", tables[0])


def test_a_fresh_mesh_accepts_every_sample_but_the_early_ones() -> None:
    """A sample that is refused gets no call past the first check: its method would hardly be fuzzed."""

    async def scenario(directory: str) -> set[str]:
        mesh = await FuzzedMesh(Path(directory), 1).start()
        refused: set[str] = set()
        for method in (each for each in methods() if not each.client_streams and not each.server_streams):
            for request in samples(method):
                try:
                    channel = mesh.channel(method.service)
                    await channel.unary(method.path, request, _answer(method), CallOptions(30.0))
                except BraidError:
                    refused.add(f"{method.service}/{method.name}")
        assert not mesh.errors()
        return refused

    assert played(scenario) == EARLY


# --- what it has found


def called(service: str, name: str, request: Message) -> BraidError | None:
    """Returns the answer of a fresh mesh."""
    method = next(each for each in methods() if (each.service, each.name) == (service, name))

    async def scenario(directory: str) -> BraidError | None:
        mesh = await FuzzedMesh(Path(directory), 1).start()
        try:
            answer = method_path(service, name)
            await mesh.channel(service).unary(answer, request, _answer(method), CallOptions(30.0))
        except BraidError as error:
            return error
        finally:
            assert not mesh.errors()
        return None

    return played(scenario)


def played(scenario: Callable[[str], Coroutine[object, object, T]]) -> T:
    """Plays a scenario in a directory of its own, on virtual time."""
    loop = FuzzedLoop()
    with TemporaryDirectory() as directory:
        try:
            return loop.run_until_complete(scenario(directory))
        finally:
            loop.cancel_all()
            loop.close()


def _answer(method: Method) -> type[Message]:
    return GetMessageClass(method.response)


FOUND: list[tuple[str, str, Message, str]] = [
    ("registry", "ReleaseChannel", registry.ReleaseChannelRequest(channel=f"logs/live/{DIGITS}"), "channel"),
    ("assigner", "PinLease", assigner.PinLeaseRequest(group="indexer", lease=f"logs/live/1/{DIGITS}"), "lease"),
    ("registry", "ListEvents", event_pb2.ListEventsRequest(page_token=f"stream/logs:{DIGITS}"), "page_token"),
    ("registry", "ListEvents", event_pb2.ListEventsRequest(page_token="stream/logs:" + "9" * 19), "page_token"),
    ("dlq", "ListDeadLetters", dlq.ListDeadLettersRequest(page_token="9" * 19 + "/logs/1/0/0/1"), "page_token"),
    ("dlq", "ListDeadLetters", dlq.ListDeadLettersRequest(page_token="1/logs/1/0/0/" + "9" * 19), "page_token"),
    ("dlq", "GetDeadLetter", dlq.GetDeadLetterRequest(name="logs/1/0/" + "9" * 19), "name"),
    ("assigner", "FreezeGroup", assigner.FreezeGroupRequest(group="indexer", reason="x" * 1_000_000), "reason"),
    (
        "registry",
        "CreateStream",
        registry.CreateStreamRequest(
            name="wide",
            spec=stream_pb2.StreamSpec(
                lanes={f"lane-{n}": stream_pb2.LaneSpec(partitions=10_000) for n in range(15)}, replication_factor=1
            ),
        ),
        "spec.lanes",
    ),
]


@pytest.mark.parametrize(("service", "name", "request_", "field"), FOUND, ids=[f"{i}" for i in range(len(FOUND))])
def test_what_was_found_is_refused_by_the_name_of_its_field(
    service: str, name: str, request_: Message, field: str
) -> None:
    error = called(service, name, request_)
    assert isinstance(error, Invalid), error
    assert error.field == field and error.remedy


def test_limits_on_one_call_tell_their_numbers() -> None:
    assert f"{STREAM_PARTITIONS_MAX}" in str(called(*FOUND[-1][:3]))
    assert f"{REQUEST_TEXT_CHARS_MAX}" in str(called(*FOUND[-2][:3]))
    many = assigner.ResetProgressRequest(group="indexer")
    many.offsets.extend([assigner.ResetOffset()] * (REQUEST_ITEMS_MAX + 1))
    error = called("assigner", "ResetProgress", many)
    assert isinstance(error, Invalid) and error.field == "offsets" and f"{REQUEST_ITEMS_MAX}" in str(error)


def test_the_widest_move_with_readers_keeps_bounded_memory() -> None:
    move = registry.MoveStreamRequest(stream="logs", to_cluster="west", lanes=["live"], partitions=PARTITIONS_MAX)

    async def scenario(directory: str) -> int:
        mesh = await FuzzedMesh(Path(directory), 1).start()
        before = rss_bytes()
        path = method_path("registry", "MoveStream")
        await mesh.channel("registry").unary(path, move, registry.MoveStreamResponse, CallOptions(30.0))
        await asyncio.sleep(2.0)
        return rss_bytes() - before

    grown = played(scenario)
    assert grown < WIDE_MOVE_BYTES_MAX, f"{grown >> 20} MiB"


# --- mutants: each is found by its own judge


def planted(monkeypatch: pytest.MonkeyPatch, handler: Handler) -> None:
    """Replaces what answers `GetCluster`."""
    path, rpc = method_path("registry", "GetCluster"), RegistryService.rpc

    def changed(self: RegistryService, replica: Any) -> Any:
        service = rpc(self, replica)
        return replace(service, unary={**service.unary, path: (service.unary[path][0], handler)})

    monkeypatch.setattr(RegistryService, "rpc", changed)


def faults_of(calls: int = 20) -> str:
    return "\n".join(map(str, play(1, calls, Coverage(), GET_CLUSTER).faults))


def test_a_handler_that_raises_what_is_no_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: object, caller: Caller) -> object:
        raise KeyError("east")

    planted(monkeypatch, handle)
    assert "registry/GetCluster: KeyError" in faults_of()


def test_a_handler_that_never_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: object, caller: Caller) -> object:
        await asyncio.sleep(1_000.0)
        raise AssertionError("nobody waits so long")

    planted(monkeypatch, handle)
    assert "no answer within" in faults_of(calls=1)


def test_a_handler_that_holds_the_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(request: object, caller: Caller) -> object:
        while True:
            pass

    planted(monkeypatch, handle)
    monkeypatch.setattr(playing, "STUCK_SECONDS", 0.3)
    with pytest.raises(Stuck, match="no call ended"):
        faults_of()


def test_a_handler_that_keeps_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    async def handle(request: object, caller: Caller) -> object:
        kept.append(b"x" * (4 << 20))
        raise Invalid("kept")

    planted(monkeypatch, handle)
    assert "grown by" in faults_of(calls=60)


def test_a_task_that_dies_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: dict[str, int] = {}

    async def handle(request: object, caller: Caller) -> object:
        asyncio.get_running_loop().call_later(0.1, lambda: missing["later"])
        raise Invalid("for now")

    planted(monkeypatch, handle)
    assert "KeyError: 'later'" in faults_of(calls=1)


def test_a_state_that_no_event_tells_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    evolve, times = StreamDecider.evolve, count()

    def counting(self: StreamDecider, state: Stream, event: StreamEvent, context: Context) -> Stream:
        return replace(evolve(self, state, event, context), create_time_ms=next(times))

    monkeypatch.setattr(StreamDecider, "evolve", counting)
    assert "is another one" in faults_of(calls=1)
