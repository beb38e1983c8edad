"""I19 on a real mesh: what `why`, `describe` and `events` tell of a moment stays, whatever happens to the history.

Events are compacted, replicas are killed and start anew, and one loses its archive's directory.
"""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from devmesh.mesh import DevMesh
from testbed.checkers.past import PastAnswers
from testbed.mesh import running_mesh
from testbed.patience import until
from tests.support.commands import CALL_SECONDS, printed

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600), pytest.mark.extended]
NAME: Final = "kept"
ASKED: Final = (
    f"why lease {NAME}/live/1/0 --group {NAME}",
    f"describe group {NAME}",
    f"describe stream {NAME}",
    f"events --for group/{NAME} --max 0",
)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[DevMesh]:
    """One cluster, one registry, two assigners, each with an archive in a directory of its own."""
    with running_mesh(tmp_path / "mesh", clusters=("east",), registries=1, assigners=2) as mesh:
        yield mesh


async def told(mesh: DevMesh, at_ms: int) -> object:
    """Everything that is asked, about one moment."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found = await asyncio.gather(*[printed(mesh, f"{line} --at {at} -o json") for line in ASKED])
    return [_without_beginning(each) for each in map(_read, found)]


def _read(text: str) -> Any:
    """A document, or one on each line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def _without_beginning(answer: Any) -> Any:
    """A story may begin later than it did: where it begins is no part of it."""
    if isinstance(answer, dict) and "reasons" in answer:
        return {**answer, "kept_from_sequence": None, "reasons": answer["reasons"][-1:]}
    return answer


async def grow(mesh: braid.Mesh, events: int) -> None:
    """Makes so many events that change nobody's leases."""
    for number in range(events):
        request = assigner.FreezeGroupRequest(group=NAME, frozen=number % 2 == 0)
        await mesh.service("assigner").unary("FreezeGroup", request, group_pb2.Group, timeout_seconds=CALL_SECONDS)


async def remember(local: DevMesh, answers: PastAnswers) -> None:
    """Keeps what is told about now."""
    await asyncio.sleep(0.05)  # what has just happened is before it
    at_ms = int(datetime.now(UTC).timestamp() * 1000)
    await asyncio.sleep(0.05)  # and what comes is after it
    answers.record(at_ms, await told(local, at_ms))


def lose_archive(directory: Path, replica: str) -> None:
    """Removes a replica's archive, which has something of the group."""
    (archive,) = directory.glob(f"mesh/**/{replica}/archive")
    assert list(archive.glob(f"assigner/group/{NAME}/*.seg")), "there is something to lose"
    shutil.rmtree(archive)


async def handle(record: braid.Record) -> None:
    """Nothing to do."""


async def test_answers_survive_compaction_restarts_and_a_lost_archive(local: DevMesh, tmp_path: Path) -> None:
    answers = PastAnswers()
    async with braid.connect(local.ready.endpoint) as mesh:
        spec = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=2)}, replication_factor=1)
        made = api.CreateStreamRequest(name=NAME, spec=spec)
        await mesh.service("registry").unary("CreateStream", made, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)
        for members in (1, 2):
            async with AsyncExitStack() as stack:
                held = [await stack.enter_async_context(mesh.consumer([NAME], group=NAME)) for _ in range(members)]
                running = [asyncio.create_task(each.run(handle)) for each in held]
                await until(lambda: sum(len(each.leases()) for each in held) == 2, "both leases are held")  # noqa: B023
                await remember(local, answers)
                await grow(mesh, SNAPSHOT_EVERY_EVENTS)
                await remember(local, answers)
            await asyncio.gather(*running)
        await grow(mesh, 40)  # two intervals are over: the first one is compacted
    assert len({json.dumps(answer) for _, answer in answers.given}) == len(answers.given), "each is another one"
    for name in ("assigner-0", "assigner-1", "registry-0"):
        await local.kill(name)
        if name == "assigner-0":
            lose_archive(tmp_path, name)
        await local.start(name)
        if name != "assigner-1":  # after the archive was lost, and in the end
            assert await answers.violations(lambda at_ms: told(local, at_ms)) == []
            assert answers.refused == []
    assert "whole" in await printed(local, "archive verify")
