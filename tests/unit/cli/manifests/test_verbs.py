"""`apply` and `diff`, and how strictly manifests are read."""

import unittest.mock
from pathlib import Path

import pytest

from braid.cli.manifests.declarations import read_text
from braid.kafka.memory.world import MemoryProcess
from braid.kernel.errors import Invalid
from tests.unit.cli.mesh import Result, Shell, virtual

STREAM = """
apiVersion: braid/v1
kind: Stream
metadata: {name: logs}
spec:
  lanes: {live: {partitions: 4}}
  clusters: [east]
  failover: off
  topic_config: {segment.bytes: "1048576"}
"""
CLUSTER = """
apiVersion: braid/v1
kind: Cluster
metadata: {name: east}
spec: {bootstrap: "east:9092", zone: a}
"""


async def mesh(files: dict[str, str], directory: Path) -> Shell:
    """An empty mesh beside a Kafka cluster, and some files."""
    shell = await Shell().start()
    shell.kafka.add_cluster("east")
    for name, text in files.items():
        (directory / name).write_text(text)
    return shell


def test_apply_twice_and_change(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh({"mesh.yaml": f"{STREAM}---{CLUSTER}"}, tmp_path)
        path = str(tmp_path / "mesh.yaml")
        assert await shell.braid("apply", "-f", path, "--dry-run") == Result(
            0, "cluster/east created (dry run)\nstream/logs created (dry run; checked when its clusters exist)\n", ""
        )
        assert await shell.braid("apply", "-f", path) == Result(0, "cluster/east created\nstream/logs created\n", "")
        assert await shell.braid("apply", "-f", path) == Result(
            0, "cluster/east unchanged\nstream/logs unchanged\n", ""
        )
        assert await shell.braid("diff", "-f", path) == Result(0, "", "")
        (tmp_path / "mesh.yaml").write_text(STREAM.replace("off", "propose"))
        differences = await shell.braid("diff", "-f", path)
        assert differences.code == 1
        assert differences.out.splitlines()[:2] == ["--- stream/logs in the mesh", "+++ stream/logs as declared"]
        assert {"-failover: 'off'", "+failover: propose"} <= set(differences.out.splitlines())
        assert await shell.braid("apply", "-f", path) == Result(0, "stream/logs changed\n", "")
        assert "failover: propose" in (await shell.braid("get", "stream", "logs", "-o", "yaml")).out

    scenario()


def test_what_get_prints_apply_takes(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh({"mesh.yaml": f"{CLUSTER}---{STREAM}"}, tmp_path)
        await shell.braid("apply", "-f", str(tmp_path / "mesh.yaml"))
        for kind, name in (("stream", "logs"), ("cluster", "east")):
            (tmp_path / "printed.yaml").write_text((await shell.braid("get", kind, name, "-o", "yaml")).out)
            result = await shell.braid("apply", "-f", str(tmp_path / "printed.yaml"))
            assert result == Result(0, f"{kind}/{name} unchanged\n", "")

    scenario()


def test_what_the_mesh_refuses_names_the_file(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh({"a.yaml": STREAM}, tmp_path)
        path = tmp_path / "a.yaml"
        result = await shell.braid("apply", "-f", str(path))
        assert result.code == 2
        assert f"braid: {path}: spec.clusters[0]: there is no cluster east" in result.err

    scenario()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (STREAM.replace("partitions", "partitons"), "a.yaml: spec.lanes.live.partitons: there is no such field"),
        (STREAM.replace("partitions", "partitons"), "did you mean partitions?"),
        (STREAM.replace("4", "four"), "a.yaml: spec.lanes.live.partitions: 'four' is not what belongs here"),
        (STREAM.replace("4", "yes"), "'yes' is not what belongs here"),
        (STREAM.replace("[east]", "east"), "a.yaml: spec.clusters: 'east' is not a list"),
        (STREAM.replace("{name: logs}", "{}"), "a.yaml: metadata.name: a name is missing"),
        (STREAM.replace("{name: logs}", "{name: Logs}"), "'Logs' is not a name"),
        (STREAM.replace("{name: logs}", "{name: logs, owner: me}"), "a.yaml: metadata.owner: there is no such field"),
        (STREAM.replace("Stream", "Steam"), "a.yaml: kind: 'Steam' is not known"),
        (STREAM.replace("braid/v1", "braid/v2"), "a.yaml: apiVersion: 'braid/v2' is not known"),
        (STREAM.replace("spec:", "sepc:"), "a.yaml: sepc: there is no such field"),
        (STREAM.replace("off", "sometimes"), "a.yaml: spec.failover: 'sometimes' is unknown"),
        (STREAM.replace('"1048576"', "1048576"), "put it in quotes"),
        (STREAM + "  clusters: [west]\n", "clusters is given twice"),
        (f"{STREAM}---{STREAM}", "Stream logs is declared twice"),
        (f"{CLUSTER}---\nkind: 1\n", "a.yaml#2: apiVersion"),
        ("{", "this is not YAML"),
        ("[" * 2_000, "nested too deeply"),
        ("just text", "this is no manifest"),
        ("", "there is no manifest in it"),
    ],
)
def test_bad_manifests_name_the_place(text: str, told: str, tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh({"a.yaml": text}, tmp_path)
        result = await shell.braid("apply", "-f", str(tmp_path / "a.yaml"))
        assert (result.code, result.out) == (2, "")
        assert told in result.err
        assert "Traceback" not in result.err

    scenario()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh({}, tmp_path)
        assert "No such file" in (await shell.braid("apply", "-f", str(tmp_path / "none.yaml"))).err
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        assert "is not UTF-8" in (await shell.braid("apply", "-f", str(tmp_path / "binary"))).err
        assert (await shell.braid("apply")).code == 2

    scenario()


def test_a_change_under_the_hand_is_read_again(tmp_path: Path) -> None:
    """The etag moves whenever a channel does: applying reads again instead of giving up."""

    @virtual
    async def scenario() -> None:
        from braid.cli.manifests import apply

        shell = await mesh({"mesh.yaml": f"{CLUSTER}---{STREAM}"}, tmp_path)
        path = str(tmp_path / "mesh.yaml")
        await shell.braid("apply", "-f", path)
        current = apply._current
        stale = ["0"]

        async def once_stale(*arguments: object) -> object:
            spec, etag = await current(*arguments)  # type: ignore[arg-type]  # passed through
            return spec, stale.pop() if stale else etag

        (tmp_path / "mesh.yaml").write_text(STREAM.replace("off", "propose"))
        with unittest.mock.patch.object(apply, "_current", once_stale):
            assert await shell.braid("apply", "-f", path) == Result(0, "stream/logs changed\n", "")

    scenario()


def test_modes_named_like_booleans_stay_text() -> None:
    (declared,) = read_text(STREAM, "stdin")
    assert declared.where == "stdin"
    with pytest.raises(Invalid, match="True is not what belongs here"):
        read_text(STREAM.replace("4", "true"), "stdin")


def test_a_list_without_manifests_is_refused_with_its_place() -> None:
    begin = "apiVersion: braid/v1\nkind: List\n"
    for text, field in (
        (begin, "mesh.yaml: items"),
        (begin + "items: {}\n", "mesh.yaml: items"),
        (begin + "items: []\nspec: {}\n", "mesh.yaml: spec"),
        (begin + "items: [{apiVersion: braid/v1, kind: Strem}]\n", "mesh.yaml: items[0]: kind"),
    ):
        with pytest.raises(Invalid) as refused:
            read_text(text, "mesh.yaml")
        assert refused.value.field == field


def test_a_profile_is_not_safe_and_create_and_apply_say_so_once(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh({"mesh.yaml": CLUSTER}, tmp_path)
        note = "braid: warning: cluster {}: it is not safe\n"
        with unittest.mock.patch.object(MemoryProcess, "check_profile", return_value=["it is not safe"]):
            path = str(tmp_path / "mesh.yaml")
            assert await shell.braid("apply", "-f", path) == Result(0, "cluster/east created\n", note.format("east"))
            assert (await shell.braid("apply", "-f", path)).err == ""  # its address is as it was
            shell.kafka.add_cluster("west")
            made = await shell.braid("create", "cluster", "west", "--bootstrap", "west:9092")
            assert made.code == 0 and made.err == note.format("west")

    scenario()
