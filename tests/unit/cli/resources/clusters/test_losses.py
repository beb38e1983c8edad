"""`delete stream` names what is lost before it asks, and before it deletes what groups consume."""

import io

import pytest

from braid.api.assigner.v1.group_pb2 import Group, GroupSpec, GroupStatus
from braid.api.registry.v1.stream_pb2 import Channel
from braid.cli import app
from braid.cli.core.endpoints import Choice
from braid.cli.core.execution import RUNNER, Job
from braid.cli.resources.clusters.losses import losses_text
from braid.cli.resources.create_delete import find_losses
from tests.unit.cli.mesh import Result, Shell, TerminalText, virtual


def group(name: str, members: int, *streams: str) -> Group:
    """A group of some streams."""
    return Group(name=name, spec=GroupSpec(streams=streams), status=GroupStatus(members=members))


def test_every_record_group_and_member_concerned_is_named() -> None:
    channels = [Channel(cluster="west"), Channel(cluster="east")]
    groups = [group("a", 1, "logs"), group("b", 0, "logs"), group("c", 2, "bills", "logs")]
    assert losses_text("logs", channels, groups) == (
        "This deletes stream logs for good: every record in its 2 channels on east, west; "
        "work of groups a (1 member), b (0 members) ends; work of group c (2 members) goes on without it."
    )


def test_groups_that_no_assigner_names_are_said_to_be_unknown() -> None:
    assert "which groups consume it is not known" in losses_text("logs", [], None)


@virtual
async def test_unattended_deletion_lists_first_what_ends_with_a_stream() -> None:
    shell = await Shell().start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    assert (await shell.braid("consume", "logs", "--group", "g", "--timeout", "5")).code == 0
    told = "braid: This deletes stream logs for good: every record in its 2 channels on east; work of group g "
    deleted = await shell.braid("delete", "stream", "logs", "--yes")
    assert deleted == Result(0, "stream/logs deleted\n", told + "(0 members) ends.\n")


@virtual
async def test_a_mistyped_name_is_refused_before_anybody_is_asked() -> None:
    shell = await Shell().start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    told = [""]
    refused = await shell.work(lambda session: find_losses(session, "lgos", told))
    assert (refused.code, told) == (4, [""])
    assert "did you mean logs?" in refused.err


def test_a_person_is_asked_after_the_losses_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    typed = TerminalText("another\n")
    monkeypatch.setattr("sys.stdin", typed)
    monkeypatch.setattr("sys.stderr", io.StringIO())

    def note(choice: Choice, job: Job) -> int:
        ran.append(f"read {typed.tell()}")
        return 0

    token = RUNNER.set(note)
    try:
        assert app.run(["delete", "stream", "logs"]) == 4
    finally:
        RUNNER.reset(token)
    assert ran == ["read 0"]  # the mesh was asked before anything was read, and nothing was deleted
