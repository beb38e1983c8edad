"""Groups whose streams were deleted: `get groups` marks them, `describe group` says what an operator may do."""

import io
import json

from braid.cli.core.terminal import Terminal
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.traffic.test_verbs import with_stream


async def with_group(*streams: str) -> Shell:
    """A mesh whose group `g` consumed `logs` and the streams, and left."""
    shell = await with_stream("east")
    for stream in streams:
        assert (await shell.braid("create", "stream", stream, "--lane", "live=1")).code == 0
    terminal = Terminal(io.StringIO(), io.StringIO(), {})
    async with shell.session(terminal) as session, session.mesh.consumer(["logs", *streams], group="g"):
        pass
    return shell


async def delete(shell: Shell, stream: str) -> None:
    """Deletes a stream."""
    assert (await shell.braid("delete", "stream", stream, "--yes")).code == 0


@virtual
async def test_describing_a_group_without_its_stream_says_what_to_do() -> None:
    shell = await with_group()
    before = await shell.braid("describe", "group", "g")
    assert "deleted" not in before.out
    await delete(shell, "logs")
    described = await shell.braid("describe", "group", "g", terminal=True)
    assert (described.code, described.err) == (0, "")
    assert (
        "\n\nStream logs was deleted: group g has nothing left to consume.\n"
        "Create the stream again, or delete the group:  braid delete group g\n\n"
    ) in described.out
    assert max(map(len, described.out.splitlines())) <= 80


@virtual
async def test_listing_groups_marks_one_that_has_no_stream_left() -> None:
    shell = await with_group()
    assert " IDLE " in (await shell.braid("get", "groups", "g")).out
    await delete(shell, "logs")
    [_, row] = (await shell.braid("get", "groups", "g")).out.splitlines()
    assert " NO STREAM " in row
    [group] = json.loads((await shell.braid("get", "groups", "-o", "json")).out)["items"]
    assert group["deleted_streams"] == ["logs"]


@virtual
async def test_a_stream_that_is_created_again_takes_the_mark_away() -> None:
    shell = await with_group()
    await delete(shell, "logs")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1", "--lane", "bulk=1")).code == 0
    assert "NO STREAM" not in (await shell.braid("get", "groups", "g")).out
    assert "deleted" not in (await shell.braid("describe", "group", "g")).out


@virtual
async def test_groups_are_listed_unmarked_while_no_registry_answers() -> None:
    shell = await with_group()
    await delete(shell, "logs")
    shell.kill("registry-0")
    listed = await shell.braid("get", "groups", "g")
    assert listed.code == 0 and " IDLE " in listed.out
    assert "whether streams of groups were deleted is not known" in listed.err


@virtual
async def test_a_group_continues_without_a_deleted_stream() -> None:
    shell = await with_group("bills", "visits")
    await delete(shell, "bills")
    described = (await shell.braid("describe", "group", "g")).out
    assert "\n\nStream bills was deleted: group g goes on with logs, visits.\n\n" in described
    assert "NO STREAM" not in (await shell.braid("get", "groups", "g")).out
    for stream in ("logs", "visits"):
        await delete(shell, stream)
    described = (await shell.braid("describe", "group", "g")).out
    assert "Streams bills, logs, visits were deleted: group g has nothing left to consume." in described
    assert "Create one of them again, or delete the group:  braid delete group g" in described
