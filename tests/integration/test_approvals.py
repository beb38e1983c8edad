"""Two people and one stream over real mutual TLS: the command line asks, another approves, and the first repeats."""

import asyncio
import os
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from braid.host.tls.paths import Tls
from devmesh.processes.brokers import KafkaBroker
from testbed.patience import until
from tests.integration.test_access import ANN, Processes, mesh
from tests.support.commands import loaded_command

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.untimed]
BOB: Final = "spiffe://test.local/user/bob"
POLICY: Final = """
apiVersion: braid/v1
kind: ApprovalPolicy
metadata: {name: careful}
spec: {verbs: [delete-stream, delete-group, reset-progress], expire_seconds: 600}
"""


class Said(NamedTuple):
    """How a command ended, and its output."""

    code: int
    out: str
    err: str


class Person:
    """Somebody at a command line with a certificate."""

    def __init__(self, processes: Processes, uri: str) -> None:
        name = uri.rpartition("/")[2]
        self._tls: Tls = processes.authority.client(processes.directory / f"cli-{name}", uri)
        self._endpoint = processes.ready["registry-0"]["address"]

    async def braid(self, *arguments: str) -> Said:
        """Runs a command."""
        tls = {"CERTIFICATE": self._tls.certificate, "KEY": self._tls.key, "CA": self._tls.ca}
        environment = {**os.environ, **{f"BRAID_TLS_{name}": str(path) for name, path in tls.items()}}
        process = await asyncio.create_subprocess_exec(
            loaded_command(),
            "--endpoint",
            self._endpoint,
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Said(process.returncode or 0, out.decode(), err.decode())

    async def done(self, *arguments: str) -> str:
        """Runs a command that must succeed. Returns its output."""
        said = await self.braid(*arguments)
        assert said.code == 0, said
        return said.out


async def test_a_stream_and_a_group_are_deleted_by_two_people(tmp_path: Path, broker: KafkaBroker) -> None:
    async with mesh(tmp_path) as processes:
        ann, bob = Person(processes, ANN), Person(processes, BOB)
        await ann.done("create", "cluster", "east", "--bootstrap", broker.bootstrap, "--allow-auto-create-topics")
        await ann.done("create", "stream", "papers", "--lane", "live=1", "--replication-factor", "1")
        (tmp_path / "policy.yaml").write_text(POLICY)
        await ann.done("apply", "-f", str(tmp_path / "policy.yaml"))
        await ann.done("grant", "admin", "--to", BOB)
        delete = ("delete", "stream", "papers", "--yes")
        asked = await bob.braid(*delete)
        assert asked.code == 4, asked
        assert "APPROVAL_REQUIRED" in asked.err or "waits for a second person's approval" in asked.err
        id = (await ann.done("get", "approvals", "-o", "name")).strip().partition("/")[2]
        assert f"braid approve {id}" in asked.err
        own = await bob.braid("approve", id, "--yes")
        assert own.code == 4 and "cannot approve it" in own.err
        await ann.done("approve", id, "--yes", "--reason", "ticket 17")

        processes.running["registry-0"].kill()  # nothing of it is in memory alone
        await processes.running["registry-0"].wait()
        (tmp_path / "registry-0.json").unlink()
        await processes.start("registry-0")
        bob, ann = Person(processes, BOB), Person(processes, ANN)

        async def deleted() -> bool:
            return (await bob.braid(*delete)).code == 0

        await until(deleted, "the approved command goes on", 60.0)
        told = await ann.done("events", "--for", "approvals/mesh")
        assert [told.count(name) for name in ("ApprovalAsked", "ApprovalDecided", "ApprovalUsed")] == [1, 1, 1]
        assert "USED" in await ann.done("get", "approvals", id)
        again = await ann.braid("approve", id, "--yes")
        assert again.code == 4 and "is used up" in again.err
