"""Two members of one group under one client id: each is warned, once; nobody else is, and no default leads there."""

import logging
from dataclasses import replace

import pytest

import braid
from braid.client.mesh import own_client_id
from braid.host.system import system_host
from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX, NAMESAKES_MAX
from tests.support.scripted_control import until, virtual
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.client.scripted_member import bench


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The members' warnings, in order."""
    found = [record for record in caplog.records if "client id" in record.getMessage()]
    assert all((each.name, each.levelno) == ("braid.consumer", logging.WARNING) for each in found)
    return [each.getMessage() for each in found]


async def two(mesh: Mesh, other: str = "web", group: str = "indexer") -> tuple[Participant, Participant]:
    """Two connected members, the first called `web`, each in a process of its own."""
    first = Participant(mesh, "web")
    await mesh.until(lambda: bool(first.session.member_id))
    second = Participant(mesh, other, group=group, process="second")
    await mesh.until(lambda: bool(second.session.member_id))
    await mesh.host.clock.sleep(1.0)
    return first, second


def test_two_members_under_one_client_id_are_each_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    ids: list[str] = []

    async def scenario() -> None:
        mesh = await Mesh().start()
        ids.extend(each.session.member_id for each in await two(mesh))
        await mesh.host.clock.sleep(60.0)

    run_virtual(scenario())
    told = sorted(warnings(caplog))
    assert len(told) == 2, told
    for line in told:
        assert "group indexer" in line
        assert "client id 'web'" in line
        assert "client_id" in line, "the remedy"
    assert sum(ids[1] in line and "second" in line for line in told) == 1, "the first hears of the second, and where"
    assert sum(ids[0] in line and " at web" in line for line in told) == 1


@pytest.mark.parametrize(("other", "group"), [("web-2", "indexer"), ("web", "another")])
def test_members_of_other_names_or_groups_are_not_warned(
    caplog: pytest.LogCaptureFixture, other: str, group: str
) -> None:
    async def scenario() -> None:
        await two(await Mesh().start(), other, group)

    run_virtual(scenario())
    assert warnings(caplog) == []


def test_a_member_that_comes_back_after_its_end_is_not_warned(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        [first] = await mesh.joined(1)
        first.kill()
        await mesh.host.clock.sleep(1.0)
        again = Participant(mesh, "web-1", process="web-1-again")
        await mesh.until(lambda: bool(again.session.member_id))
        await mesh.host.clock.sleep(1.0)

    run_virtual(scenario())
    assert warnings(caplog) == []


def test_a_change_of_leader_warns_nobody_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(assigners=2)
        members = await two(mesh)
        before = len(warnings(caplog))
        leader = (await mesh.leader()).instance
        mesh.processes[leader].kill()
        await mesh.leader()
        await mesh.until(lambda: all(each.session.attached for each in members), seconds=60.0)
        await mesh.host.clock.sleep(10.0)
        assert len(warnings(caplog)) == before == 2

    run_virtual(scenario())


def test_a_crowd_under_one_client_id_is_told_with_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    crowd = 3 * NAMESAKES_MAX

    async def scenario() -> None:
        mesh = await Mesh().start()
        first = Participant(mesh, "web")
        await mesh.until(lambda: bool(first.session.member_id))
        for number in range(crowd):
            each = Participant(mesh, "web", process=f"web-{number}")
            await mesh.until(lambda each=each: bool(each.session.member_id))  # type: ignore[misc]
        await mesh.host.clock.sleep(1.0)

    run_virtual(scenario())
    told = warnings(caplog)
    joined = [line for line in told if "others" in line or "another" in line]
    assert len(joined) == len(told)
    assert crowd <= len(told) <= crowd + NAMESAKES_MAX * NAMESAKES_MAX


def test_two_unnamed_meshes_have_client_ids_of_their_own() -> None:
    one, other = braid.connect("127.0.0.1:1"), braid.connect("127.0.0.1:1")
    assert one.client_id != other.client_id
    assert one.client_id.startswith("braid-")
    assert braid.connect("127.0.0.1:1", client_id="web-1").client_id == "web-1"


@virtual
async def test_two_consumers_of_an_unnamed_mesh_have_own_client_ids() -> None:
    async with bench() as at:
        client = at.control.client("")
        async with client.mesh, client.mesh.consumer(["logs"], group="g"), client.mesh.consumer(["logs"], group="g"):
            await until(lambda: len(at.control.members) == 2)
        first, second = (joined.hello.client_id for joined in at.control.members)
        assert first == client.mesh.client_id
        assert second not in ("", first)


@virtual
async def test_two_consumers_of_a_named_mesh_keep_its_client_id() -> None:
    async with bench() as at:
        client = at.control.client("m")
        async with client.mesh, client.mesh.consumer(["logs"], group="g"), client.mesh.consumer(["logs"], group="g"):
            await until(lambda: len(at.control.members) == 2)
        assert [joined.hello.client_id for joined in at.control.members] == ["m", "m"]


@pytest.mark.parametrize("name", ["rechner-müller", "a\tb", "x" * 300, ""])
def test_an_own_client_id_is_valid_whatever_the_hosts_name(name: str) -> None:
    made = own_client_id("braid", replace(system_host(), name=name))
    assert made.isascii() and made.isprintable()
    assert len(made) <= HELLO_TEXT_MAX
    assert made.startswith("braid-")
