"""`approve`, approval policies as manifests, and destructive commands that wait, in a mesh that enforces rights."""

import asyncio
from pathlib import Path

from tests.unit.cli.access.test_verbs import ANN, BOB, mesh
from tests.unit.cli.mesh import Result, Shell, virtual

POLICY = """
apiVersion: braid/v1
kind: ApprovalPolicy
metadata: {name: careful}
spec:
  verbs: [delete-stream, reset-progress, decommission-cluster]
  resource: mesh
  expire_seconds: 7200
"""


async def guarded(directory: Path) -> Shell:
    """A mesh with a policy; Ann is the admin of its settings, Bob owns every stream, and sees the rest."""
    shell = await mesh()
    (directory / "policy.yaml").write_text(POLICY)
    assert (await shell.braid("apply", "-f", str(directory / "policy.yaml"))).out == "approvalpolicy/careful created\n"
    await shell.braid("grant", "stream-owner", "--to", BOB, "--on", "stream/*")
    await shell.braid("grant", "viewer", "--to", BOB)
    await asyncio.sleep(1.0)
    return shell


async def waiting(shell: Shell) -> str:
    """The id of the one approval that waits."""
    before, shell.principals["cli"] = shell.principals["cli"], ANN
    listed = await shell.braid("get", "approvals", "-o", "name")
    shell.principals["cli"] = before
    return listed.out.strip().splitlines()[-1].partition("/")[2]


def refused(result: Result, text: str) -> None:
    """Checks that a command was refused with a text."""
    assert result.code == 4, result
    assert text in result.err


def test_a_stream_is_deleted_by_two(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await guarded(tmp_path)
        shell.principals["cli"] = BOB
        first = await shell.braid("delete", "stream", "logs", "--yes")
        id = await waiting(shell)
        refused(first, f"braid delete stream logs waits for a second person's approval, {id}")
        assert f"braid approve {id}; then repeat the same command within 120 min" in first.err
        refused(await shell.braid("approve", id, "--yes"), f"{BOB} asked for it, and cannot approve it")
        shell.principals["cli"] = ANN
        shown = await shell.braid("approve", f"approval/{id}", "--dry-run")
        assert shown.out.splitlines()[0] == f"{BOB} asks for: braid delete stream logs"
        approved = await shell.braid("approve", id, "--yes", "--reason", "ticket 17")
        assert approved.out.splitlines()[1] == f"{id} approved: {BOB} repeats the command within 120 min"
        shell.principals["cli"] = BOB
        assert (await shell.braid("delete", "stream", "logs", "--yes")).out == "stream/logs deleted\n"
        shell.principals["cli"] = ANN
        (row,) = (await shell.braid("get", "approvals", "-o", "wide")).out.splitlines()[1:]
        assert [id, "USED", BOB, ANN] == [each for each in row.split() if each in (id, "USED", BOB, ANN)]
        told = (await shell.braid("events", "--for", "approvals/mesh")).out
        assert [name in told for name in ("ApprovalAsked", "ApprovalDecided", "ApprovalUsed")] == [True] * 3

    scenario()


def test_a_refusal_is_told_and_the_next_call_asks_anew(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await guarded(tmp_path)
        shell.principals["cli"] = BOB
        await shell.braid("delete", "stream", "logs", "--yes")
        id = await waiting(shell)
        shell.principals["cli"] = ANN
        done = await shell.braid("approve", id, "--refuse", "--yes", "--reason", "still in use")
        assert done.out.splitlines()[1] == f"{id} refused: nothing is done"
        refused(await shell.braid("approve", id, "--yes"), f"{id} was refused by {ANN}")
        shell.principals["cli"] = BOB
        assert id not in (await shell.braid("delete", "stream", "logs", "--yes")).err

    scenario()


def test_who_may_not_do_it_may_not_decide_on_it(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await guarded(tmp_path)
        await shell.braid("decommission", "cluster", "east", "--yes")
        shell.principals["cli"] = BOB
        for flags in ((), ("--refuse",)):
            denied = await shell.braid("approve", await waiting(shell), "--yes", *flags)
            refused(denied, "it may not do it itself (change cluster/east)")
        refused(await shell.braid("delete", "approvalpolicy", "careful", "--yes"), "may not grant")

    scenario()


def test_can_i_says_that_a_second_person_may_be_needed(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await guarded(tmp_path)
        told = await shell.braid("can-i", "delete", "stream", "logs")
        assert told.code == 0
        assert told.out.splitlines()[-1] == (
            "  a second person may have to approve it, by policy careful: braid get approvalpolicies"
        )
        assert "second person" not in (await shell.braid("can-i", "move", "stream", "logs")).out
        assert "second person" not in (await shell.braid("can-i", "close", "channel", "logs/live/1")).out

    scenario()


def test_policies_are_applied_compared_exported_and_deleted(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await guarded(tmp_path)
        path = tmp_path / "policy.yaml"
        assert (await shell.braid("apply", "-f", str(path))).out == "approvalpolicy/careful unchanged\n"
        path.write_text(POLICY.replace("7200", "60"))
        assert "+expire_seconds: 60" in (await shell.braid("diff", "-f", str(path))).out
        assert (await shell.braid("apply", "-f", str(path))).out == "approvalpolicy/careful changed\n"
        exported = await shell.braid("get", "approvalpolicies", "-o", "yaml")
        path.write_text(exported.out)
        assert (await shell.braid("apply", "-f", str(path))).out == "approvalpolicy/careful unchanged\n"
        (row,) = (await shell.braid("get", "approvalpolicies")).out.splitlines()[1:]
        assert row.split()[:5] == ["careful", "delete-stream,reset-progress,decommission-cluster", "mesh", "60", "s"]
        path.write_text(POLICY.replace("delete-stream", "delete-everything"))
        assert (await shell.braid("apply", "-f", str(path))).code == 2
        path.write_text(POLICY.replace("mesh", "stream/logs"))
        wrong = await shell.braid("apply", "-f", str(path))
        assert "decommission-cluster is never about stream/logs" in wrong.err
        gone = await shell.braid("delete", "approvalpolicy", "careful", "--yes")
        assert gone.out == "approvalpolicy/careful deleted\n"
        assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0

    scenario()


def test_nobody_decides_unasked(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await guarded(tmp_path)
        await shell.braid("delete", "stream", "logs", "--yes")
        asked = await shell.braid("approve", await waiting(shell))
        assert asked.code == 2 and "repeat it with --yes" in asked.err
        missing = await shell.braid("approve", "none", "--yes")
        refused(missing, "no request waits as none")

    scenario()
