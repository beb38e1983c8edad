"""`alerts export`: prints the mesh's rule files, or writes them where it is told and nowhere else."""

import asyncio
from pathlib import Path

from braid.api.lagmon.v1 import alert_pb2 as pb
from tests.unit.cli.mesh import Shell, virtual


async def with_rules(name: str = "braid-alerts.yaml") -> Shell:
    """A mesh whose lagmon has one rule file."""
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    await asyncio.sleep(1.0)  # until every directory has it
    shell.lagmon.rule_files = [pb.AlertRuleFile(name=name, content="groups: []\n")]
    return shell


@virtual
async def test_rules_are_printed_as_the_mesh_has_them() -> None:
    shell = await with_rules()
    assert (await shell.braid("alerts", "export", "--runbooks", "https://a.example")).out == "groups: []\n"
    assert [each.runbooks for each in shell.lagmon.exported] == ["https://a.example"]


def test_rules_are_written_into_a_directory(tmp_path: Path) -> None:
    @virtual
    async def scene() -> None:
        shell = await with_rules("../../braid-alerts.yaml")  # a mesh that lies about names writes nowhere else
        done = await shell.braid("alerts", "export", "--directory", str(tmp_path / "rules"))
        assert done.out == f"{tmp_path / 'rules' / 'braid-alerts.yaml'} written\n"

    scene()
    assert (tmp_path / "rules" / "braid-alerts.yaml").read_text() == "groups: []\n"


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("a file")

    @virtual
    async def scene() -> None:
        shell = await with_rules()
        done = await shell.braid("alerts", "export", "--directory", str(tmp_path / "rules"))
        assert done.code == 2 and "cannot be written" in done.err

    scene()
