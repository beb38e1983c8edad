"""Faults of a chaos run notice when they did nothing, and those that a machine does not allow do not count."""

import random
from pathlib import Path
from typing import cast

import pytest

from braid.api.assigner.v1.assigner_service_pb2 import ListGroupsResponse
from braid.api.assigner.v1.group_pb2 import Group, GroupStatus
from braid.client.mesh import Mesh
from braid.kernel.errors import BraidError, Refused
from braid.rpc.mesh_client import ServiceClient
from devmesh.documents import MeshStatus, ProcessStatus
from devmesh.mesh import DevMesh
from testbed.ground.field import Field, NotPlayedError, StuckError
from testbed.ground.fleet import Fleet
from testbed.ground.journals import Journals, Line
from tests.e2e.chaos import clock_faults, full_disks
from tests.e2e.chaos.catalogue import FAULTS, Kind
from tests.e2e.chaos.faults import go_on
from tests.e2e.chaos.liveness import Act, Gap, stalls
from tests.e2e.chaos.network import was_cut
from tests.e2e.chaos.run import Report, _Play
from tests.e2e.chaos.strangers import refused


def act_of(name: str, seconds: float) -> tuple[Act, Gap]:
    """A fault of so many seconds in which a producer stood still all the time."""
    ms = int(seconds * 1_000)
    return Act("deck", name, 0, ms, hit=False), Gap("producer-0 in lane live", True, 0, ms, ms)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_stall_beyond_its_limit_is_reported_for_every_fault(name: str) -> None:
    allowed = FAULTS[name].sends_seconds
    for seconds, told in ((allowed - 1, 0), (allowed + 1, 1)):
        act, gap = act_of(name, seconds)
        assert len([*stalls([act], [gap])]) == told


def a_field(tmp_path: Path, *lines: Line) -> Field:
    journals = Journals(tmp_path)
    journals.lines += lines
    return Field(cast(DevMesh, None), cast(Fleet, None), journals, cast(Mesh, None))


def test_a_link_that_was_not_cut_is_noticed(tmp_path: Path) -> None:
    early, late, later = (Line("member-1", "processed", ms) for ms in (1_100, 5_900, 6_100))
    other = Line("member-2", "processed", 5_900)
    was_cut(a_field(tmp_path, early, other, later), "member-1", "processed", 1_000, 6_000)
    with pytest.raises(StuckError, match="worked on"):
        was_cut(a_field(tmp_path, early, late, later), "member-1", "processed", 1_000, 6_000)


class Registry:
    """A registry stand-in that answers registrations of clusters."""

    def __init__(self, answer: BraidError | None) -> None:
        self._answer = answer

    async def unary(self, *_: object, **__: object) -> None:
        """Refuses, or does not."""
        if self._answer is not None:
            raise self._answer


@pytest.mark.parametrize(
    ("answer", "said"), [(None, "another mesh got east"), (Refused("it does not answer"), "not as another mesh")]
)
async def test_a_cluster_that_another_mesh_gets_is_noticed(answer: BraidError | None, said: str) -> None:
    with pytest.raises(StuckError, match=said):
        await refused(cast(ServiceClient, Registry(answer)), "east", "east:9092")
    await refused(cast(ServiceClient, Registry(Refused("it is a cluster of mesh m-1"))), "east", "east:9092")


@pytest.mark.parametrize(
    ("answer", "said"), [(None, "it was done each time"), (Refused("no leader of registry"), "no leader of registry")]
)
async def test_a_full_disk_that_nobody_feels_is_noticed(
    answer: BraidError | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    async def ask() -> None:
        asked.append(1)
        if answer is not None:
            raise answer

    monkeypatch.setattr(full_disks, "REFUSED_SECONDS", 0.1)
    with pytest.raises(StuckError, match=said):
        await full_disks.refused(ask, "disk of the store")
    assert len(asked) > 1

    async def full() -> None:
        raise Refused("the disk of the store /d/braid.db is full")

    await full_disks.refused(full, "disk of the store")


async def test_a_service_that_ended_is_noticed_though_it_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = {"registry-0": 1, "dlq-0": 2}

    async def processes(field: Field) -> dict[str, int]:
        return dict(pids)

    monkeypatch.setattr(full_disks, "processes", processes)
    field = a_field(tmp_path)
    await full_disks.same_processes(field, {"registry-0": 1, "dlq-0": 2})
    with pytest.raises(StuckError, match="ended dlq-0"):
        await full_disks.same_processes(field, {"registry-0": 1, "dlq-0": 7})


class Frozen:
    """A mesh in which a replica is frozen, or was ended meanwhile."""

    def __init__(self, pid: int | None) -> None:
        self._process = ProcessStatus("registry-1", "service", "paused", pid, "", "", 0, 0, 0.0, "")
        self.asked: list[str] = []

    async def status(self) -> MeshStatus:
        """How it is."""
        return MeshStatus("/d", 7, True, 0, (self._process,))

    async def resume(self, name: str) -> None:
        """Goes on."""
        self.asked.append(f"resume {name}")

    async def start(self, name: str) -> None:
        """Starts."""
        self.asked.append(f"start {name}")


@pytest.mark.parametrize(("pid", "asked"), [(41, "resume registry-1"), (None, "start registry-1")])
async def test_a_replica_that_was_ended_while_it_was_frozen_is_started(pid: int | None, asked: str) -> None:
    mesh = Frozen(pid)
    await go_on(cast(DevMesh, mesh), "registry-1")
    assert mesh.asked == [asked]


class Assigner:
    """Has a group, which is given up or not."""

    def __init__(self, *, ended: bool) -> None:
        self._group = Group(name="billing", status=GroupStatus(idle_expired=ended))

    def service(self, name: str) -> "Assigner":
        """Itself."""
        return self

    async def unary(self, *_: object, **__: object) -> ListGroupsResponse:
        """All groups."""
        return ListGroupsResponse(groups=[self._group])


@pytest.mark.parametrize(
    ("ended", "left", "said"), [(True, {"a", "b"}, "given up .*billing"), (False, {"a"}, "deleted .*'b'")]
)
async def test_what_ends_while_clocks_disagree_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool, left: set[str], said: str
) -> None:
    topics = {"east": {"a", "b"}}

    async def found(field: Field) -> dict[str, set[str]]:
        return topics

    monkeypatch.setattr(clock_faults, "topics", found)
    before, field = dict(topics), a_field(tmp_path)
    field.client = cast(Mesh, Assigner(ended=False))
    await clock_faults.nothing_ended(field, before)
    topics["east"], field.client = left, cast(Mesh, Assigner(ended=ended))
    with pytest.raises(StuckError, match=said):
        await clock_faults.nothing_ended(field, before)


async def test_a_fault_the_machine_does_not_allow_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(field: Field, chance: random.Random) -> None:
        raise NotPlayedError("no network namespace can be made here: Operation not permitted")

    monkeypatch.setitem(cast(dict[str, Kind], FAULTS), "cut member off", Kind(play, 1.0, 1.0))
    report, said = Report(1), list[str]()
    await _Play(a_field(tmp_path), report, said.append)._act("cut member off", random.Random(1))
    assert (report.faults, report.acts) == ([], [])
    assert report.not_played == {"cut member off": "no network namespace can be made here: Operation not permitted"}
    assert "NOT PLAYED" in said[0]
    assert "not_played" in report.to_json()
