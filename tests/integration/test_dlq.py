"""The dlq service over a whole mesh: indexed, listed, read, replayed through a kill -9, its index lost and rebuilt."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.dlq.v1 import dead_letter_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.api.dlq.v1.replay_pb2 import REPLAY_STATE_DONE, REPLAY_STATE_PAUSED, Replay, ReplaySpec
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_DRAINED, LaneSpec, Stream, StreamSpec
from braid.client.mesh import Mesh, system_ports
from braid.client.reading.stream_reader import Reader
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.dlq import REPLAY_BATCH_LETTERS_MAX
from devmesh.mesh import DevMesh
from services.dlq.domain.policy import batch_letters
from testbed.patience import Deadline, until
from tests.support.grounds import wait_healthy
from tests.support.judging import judge
from tests.support.planted import planted_record

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
LETTERS: Final = 10_000
LEASE_MS: Final = 15_000
RATE: Final = 1_000.0
# The bucket holds two batches, and what begins a stretch was paid for before it; a millisecond is rounded off.
BURST: Final = 3 * batch_letters(RATE) + RATE / 1_000
SHARE_MIN: Final = 0.9  # of the machine's time; below it a rate may be missed for somebody else's work


@pytest.fixture
def local(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters, two dlq replicas; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


@asynccontextmanager
async def killed(local: DevMesh, *names: str) -> AsyncIterator[None]:
    """Replicas are dead within, and serve again behind it whatever happened."""
    try:
        for name in names:
            await local.kill(name)
        yield
    finally:
        for name in names:
            await local.start(name)


async def create(mesh: Mesh, stream: str, group: str = "") -> None:
    """Makes a stream, and a group of it in which a member gives nothing up twice because the machine stalls."""
    spec = StreamSpec(lanes={"live": LaneSpec(partitions=4)}, replication_factor=1)
    request = registry_api.CreateStreamRequest(name=stream, spec=spec)
    await mesh.service("registry").unary("CreateStream", request, Stream, timeout_seconds=60)
    wanted = group_pb2.GroupSpec(streams=[stream], lease_ms=LEASE_MS, fencing=group_pb2.FENCING_GENERATION)
    registered = assigner_api.CreateGroupRequest(name=group or stream, spec=wanted)
    await mesh.service("assigner").unary("CreateGroup", registered, group_pb2.Group, timeout_seconds=60)


async def dead_letter(mesh: Mesh, stream: str, count: int, group: str = "") -> dict[str, bytes]:
    """Sends records and gives each of them up; returns their values by id."""
    sent: dict[str, bytes] = {}
    async with mesh.producer(stream) as producer:
        for start in range(0, count, 500):
            numbers = range(start, min(count, start + 500))
            records = [braid.Outgoing(b"%d" % n, key=planted_record(f"{n % 50}")) for n in numbers]
            for outgoing, receipt in zip(records, await producer.send_many(records), strict=True):
                sent[receipt.id] = outgoing.value or b""
    retry = braid.Retry(dead_letters=None)  # as many as it likes
    async with mesh.consumer([stream], group=group or stream, retry=retry) as consumer:
        left = count
        while left > 0:
            for record in await consumer.take_many(500, 60.0):
                odd = record.value is not None and int(record.value) % 2
                record.dead_letter(ValueError("odd") if odd else KeyError("even"))
                left -= 1
        # Closing waits for copies on their way no longer than for anything else; what is left is the next member's.
        await until(lambda: not any(lease.in_flight for lease in consumer.leases()), "every letter is written", 60.0)
    return sent


async def letters(mesh: Mesh, stream: str, filter: str = "") -> list[dead_letter_pb2.DeadLetter]:
    """Every dead letter, page by page."""
    found: list[dead_letter_pb2.DeadLetter] = []
    token = ""
    while True:
        request = api.ListDeadLettersRequest(stream=stream, filter=filter, page_size=1_000, page_token=token)
        page = await mesh.service("dlq").unary("ListDeadLetters", request, api.ListDeadLettersResponse)
        assert not page.catching_up
        found += page.letters
        token = page.next_page_token
        if not token:
            assert page.total == len(found)
            return found


async def total(mesh: Mesh, stream: str) -> int:
    request = api.ListDeadLettersRequest(stream=stream, page_size=1)
    page = await mesh.service("dlq").unary("ListDeadLetters", request, api.ListDeadLettersResponse)
    return -1 if page.catching_up else page.total


async def indexed(mesh: Mesh, stream: str, count: int, seconds: float = 30.0) -> None:
    """Waits until so many dead letters are listed, no more and no less."""
    seen = [0]

    async def all_are() -> bool:
        seen.append(await total(mesh, stream))
        return seen[-1] == count

    await until(all_are, lambda: f"{count} letters of {stream} are indexed, not {seen[-1]}", seconds, poll=0.1)


async def replay(mesh: Mesh, id: str) -> Replay:
    return await mesh.service("dlq").unary("GetReplay", api.GetReplayRequest(id=id), Replay)


async def start_replay(mesh: Mesh, **spec: object) -> Replay:
    request = api.CreateReplayRequest(spec=ReplaySpec(**spec))  # type: ignore[arg-type]
    return (await mesh.service("dlq").unary("CreateReplay", request, api.CreateReplayResponse)).replay


async def replayed(endpoint: str, mesh: Mesh, stream: str, enough: int) -> list[tuple[str, int, dict[str, bytes]]]:
    """Id, time and headers of every record of the live lane that was replayed."""
    ports = system_ports("test")
    found: list[tuple[str, int, dict[str, bytes]]] = []
    reader = Reader(ports.host, ports.kafka, mesh.service("registry"), stream=stream, lanes=("live",))
    async with reader:
        while (seen := await reader.take(5.0 if len(found) < enough else 1.0)) is not None:
            headers = dict(seen.record.headers)
            if "braid-replays" in headers:
                found.append((headers["braid-id"].decode(), seen.record.timestamp, headers))
    return found


async def leader(mesh: Mesh) -> str:
    told = await mesh.service("dlq").unary("ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse)
    return next((each.instance for each in told.endpoints if each.service == "dlq" and each.leader), "")


@pytest.mark.untimed
async def test_dead_letters_are_listed_read_and_replayed_for_a_group(local: DevMesh) -> None:
    async with braid.connect(local.ready.endpoint) as mesh:
        await create(mesh, "orders", "indexer")
        sent = await dead_letter(mesh, "orders", 20, group="indexer")
        await indexed(mesh, "orders", 20)
        found = await letters(mesh, "orders")
        assert {each.origin.id for each in found} == set(sent)
        assert [each.last_failure_ms for each in found] == sorted((e.last_failure_ms for e in found), reverse=True)
        odd = await letters(mesh, "orders", "error=ValueError and group=indexer and time>=2026-01-01")
        assert len(odd) == 10
        assert {each.error_message for each in odd} == {"odd"}

        content = await mesh.service("dlq").unary(
            "GetDeadLetter", api.GetDeadLetterRequest(name=odd[0].name), dead_letter_pb2.DeadLetterContent
        )
        assert content.value == sent[odd[0].origin.id]
        assert "ValueError: odd" in content.traceback
        with pytest.raises(NotFound, match="keeps them for 168 h"):
            nowhere = api.GetDeadLetterRequest(name="orders/1/0/999999")
            await mesh.service("dlq").unary("GetDeadLetter", nowhere, dead_letter_pb2.DeadLetterContent)
        await bad_input_is_named(mesh)

        request = api.CreateReplayRequest(spec=ReplaySpec(stream="orders", filter="error=ValueError"), dry_run=True)
        dry = await mesh.service("dlq").unary("CreateReplay", request, api.CreateReplayResponse)
        assert (dry.replay.id, dry.replay.status.matched, len(dry.examples)) == ("", 10, 5)
        request.dry_run = False
        made = [
            await mesh.service("dlq").unary("CreateReplay", request, api.CreateReplayResponse, request_id="r-1")
            for _ in range(2)
        ]
        assert made[0].replay.id == made[1].replay.id
        await until(lambda: _is(mesh, made[0].replay.id, REPLAY_STATE_DONE), "done")
        again = await replayed(local.ready.endpoint, mesh, "orders", 10)
        assert {id for id, _, _ in again} == {each.origin.id for each in odd}
        assert len(again) == 10
        for _, _, headers in again:
            assert headers["braid-replays"] == b"1"
            assert headers["braid-replay-group"] == b"indexer"
            assert not [name for name in headers if name.startswith("braid-dl-")]
        after = await letters(mesh, "orders", "error=ValueError")
        assert {tuple(each.replayed_by) for each in after} == {(made[0].replay.id,)}
        assert {each.state for each in after} == {dead_letter_pb2.DEAD_LETTER_STATE_REPLAYED}
        await handle(mesh, "orders", 10, group="indexer")
        await until(lambda: _are_handled(mesh, "orders", "error=ValueError"), "those replayed are handled", poll=0.2)
        left = await letters(mesh, "orders", "error=KeyError")
        assert {each.state for each in left} == {dead_letter_pb2.DEAD_LETTER_STATE_PARKED}


async def handle(mesh: Mesh, stream: str, count: int, group: str) -> None:
    """A member handles so many records."""
    async with mesh.consumer([stream], group=group) as consumer:
        while count > 0:
            for record in await consumer.take_many(500, 60.0):
                record.ack()
                count -= 1


async def _are_handled(mesh: Mesh, stream: str, filter: str) -> bool:
    states = {each.state for each in await letters(mesh, stream, filter)}
    return states == {dead_letter_pb2.DEAD_LETTER_STATE_HANDLED}


async def bad_input_is_named(mesh: Mesh) -> None:
    async def refused(error: type[braid.BraidError], **spec: object) -> braid.BraidError:
        with pytest.raises(error) as raised:
            await start_replay(mesh, **spec)
        return raised.value

    crooked = await refused(Invalid, stream="orders", filter="error ValueError")
    assert crooked.field == "spec.filter"
    assert crooked.message.split("\n")[2] == " " * 8 + "^"
    assert (await refused(NotFound, stream="nothing")).field == "spec.stream"
    assert (await refused(NotFound, stream="orders", destination="nothing")).field == "spec.destination"
    assert (await refused(NotFound, stream="orders", destination="orders/slow")).field == "spec.destination"
    assert (await refused(Invalid, stream="orders", destination="orders/dlq")).field == "spec.destination"
    assert (await refused(Invalid, stream="orders", rate_per_s=-1.0)).field == "spec.rate_per_s"
    assert (await refused(Invalid, stream="orders", destination="orders", broadcast=True)).field == "spec.broadcast"


async def test_ten_thousand_replay_at_their_rate_through_a_kill_9(
    local: DevMesh, try_name: Callable[[str], str]
) -> None:
    stream = try_name("logs")
    async with braid.connect(local.ready.endpoint) as mesh:
        await create(mesh, stream)
        sent = await dead_letter(mesh, stream, LETTERS)
        await indexed(mesh, stream, LETTERS, 60)
        job = (await start_replay(mesh, stream=stream, rate_per_s=RATE)).id

        async def well_under_way() -> bool:
            return (await replay(mesh, job)).status.sent >= 3_000

        began = Deadline(0.0)
        await until(well_under_way, "3000 sent", poll=0.2)
        async with killed(local, await leader(mesh)):
            await until(lambda: _is(mesh, job, REPLAY_STATE_DONE), "done", 60, poll=0.2)
        share, status = began.share, (await replay(mesh, job)).status
        again = await replayed(local.ready.endpoint, mesh, stream, LETTERS)
        counts = Counter(id for id, _, _ in again)
        assert set(counts) == set(sent)
        repeats = counts.total() - len(counts)
        times_ms = sorted(time_ms for _, time_ms, _ in again)
        rates = segment_rates(times_ms)
        print(f"sent {status.sent}, counted as repeated {status.repeated}, seen twice {repeats}, records/s {rates}")
        assert repeats <= status.repeated <= REPLAY_BATCH_LETTERS_MAX
        assert (status.matched, status.sent, status.skipped) == (LETTERS, LETTERS, 0)
        assert beyond_the_cap(times_ms, RATE) <= BURST
        assert len(rates) == 2
        await killed_without_a_cap(local, mesh, stream, set(sent))
        judge(min(rates) >= RATE * 0.95, share, SHARE_MIN, f"{RATE:g} records a second were asked for, not {rates}")


def beyond_the_cap(times_ms: Sequence[int], rate: float) -> float:
    """By how many records more than a rate allows the worst stretch between any two of these moments had."""
    worst = lowest = 0.0
    for number, time_ms in enumerate(times_ms):
        ahead = number - (time_ms - times_ms[0]) * rate / 1_000
        lowest = min(lowest, ahead)
        worst = max(worst, ahead + 1 - lowest)
    return worst


def test_what_is_beyond_a_cap_is_seen() -> None:
    steady = [at * 10 for at in range(100)]
    assert beyond_the_cap(steady, 100.0) == pytest.approx(1.0)
    assert beyond_the_cap(sorted([*steady, *[500] * 40]), 100.0) == pytest.approx(41.0)
    assert beyond_the_cap([at * 5 for at in range(100)], 100.0) == pytest.approx(50.5)


async def killed_without_a_cap(local: DevMesh, mesh: Mesh, stream: str, sent: set[str]) -> None:
    """The same letters for every group, as fast as it goes: the kill most likely falls within a batch."""
    began = asyncio.get_running_loop().time()
    job = (await start_replay(mesh, stream=stream, broadcast=True)).id

    async def under_way() -> bool:
        return (await replay(mesh, job)).status.sent >= 2_000

    await until(under_way, "2000 sent")
    async with killed(local, await leader(mesh)):
        await until(lambda: _is(mesh, job, REPLAY_STATE_DONE), "done", 60)
    seconds = asyncio.get_running_loop().time() - began
    status = (await replay(mesh, job)).status
    again = await replayed(local.ready.endpoint, mesh, stream, 2 * LETTERS)
    counts = Counter(id for id, _, headers in again if "braid-replay-group" not in headers)
    repeats = counts.total() - len(counts)
    print(f"{seconds:.1f} s, counted as repeated {status.repeated}, seen twice {repeats}")
    assert set(counts) == sent
    assert repeats <= status.repeated <= REPLAY_BATCH_LETTERS_MAX


def segment_rates(times_ms: list[int]) -> list[float]:
    """Records a second before and after the one long gap: the first batch of each part marks its start."""
    gaps = [(later - earlier, at) for at, (earlier, later) in enumerate(pairwise(times_ms), 1)]
    _, cut = max(gaps)
    rates: list[float] = []
    for part in (times_ms[:cut], times_ms[cut:]):
        last_batch = min(time_ms for time_ms in part if time_ms > part[-1] - 250)
        before_last = sum(time_ms < last_batch for time_ms in part)
        rates.append(before_last * 1_000 / (last_batch - part[0]))
    return rates


def lose_indexes(directory: Path) -> None:
    """Deletes every replica's index."""
    indexes = list(directory.rglob("dlq-*.db"))
    assert len(indexes) == 2
    for index in indexes:
        index.unlink()


@pytest.mark.untimed
async def test_a_paused_replay_waits_and_a_lost_index_is_rebuilt_alike(
    local: DevMesh, whole_mesh_directory: Path
) -> None:
    async with braid.connect(local.ready.endpoint) as mesh:
        await create(mesh, "bills")
        await dead_letter(mesh, "bills", 600)
        await indexed(mesh, "bills", 600)
        job = (await start_replay(mesh, stream="bills", rate_per_s=100.0)).id

        async def begun() -> bool:
            return (await replay(mesh, job)).status.sent > 0

        await until(begun, "begun")
        dlq = mesh.service("dlq")
        paused = await dlq.unary("PauseReplay", api.PauseReplayRequest(id=job), Replay)
        assert paused.status.state == REPLAY_STATE_PAUSED
        await asyncio.sleep(1.0)  # a batch under way may end
        stood = (await replay(mesh, job)).status.sent
        assert stood <= paused.status.sent + 50
        before = await letters(mesh, "bills")
        async with killed(local, "dlq-0", "dlq-1"):
            lose_indexes(whole_mesh_directory)
        await indexed(mesh, "bills", 600)
        assert await letters(mesh, "bills") == before
        assert (await replay(mesh, job)).status.sent == stood
        await dlq.unary("ResumeReplay", api.ResumeReplayRequest(id=job), Replay)
        await until(lambda: _is(mesh, job, REPLAY_STATE_DONE), "done")
        assert (await replay(mesh, job)).status.sent == 600


@pytest.mark.untimed
async def test_a_drain_of_a_dlq_channel_waits_for_the_index(local: DevMesh) -> None:
    async with braid.connect(local.ready.endpoint) as mesh:
        await create(mesh, "moved")
        await dead_letter(mesh, "moved", 10)
        registry = mesh.service("registry")
        stream = await registry.unary("GetStream", registry_api.GetStreamRequest(name="moved"), Stream)
        old = next(each for each in stream.status.channels if each.lane == "dlq" and each.weight > 0)
        order = registry_api.MoveStreamRequest(stream="moved", away_from_cluster=old.cluster, lanes=["dlq"])
        await registry.unary("MoveStream", order, registry_api.MoveStreamResponse, timeout_seconds=60)

        async def drained() -> bool:
            request = registry_api.ListChannelsRequest(stream="moved")
            told = await registry.unary("ListChannels", request, registry_api.ListChannelsResponse)
            return any(each.name == old.name and each.state == CHANNEL_STATE_DRAINED for each in told.channels)

        await until(drained, "drained", 40)
        await dead_letter(mesh, "moved", 10)
        await indexed(mesh, "moved", 20)
        assert {each.topic for each in await letters(mesh, "moved")} > {old.topic}


async def _is(mesh: Mesh, job: str, state: int) -> bool:
    return (await replay(mesh, job)).status.state == state
