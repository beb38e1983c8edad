"""The wheel, installed where no checkout is: the command, the library, and the mesh it carries."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from braid.host.tls.paths import environment_of
from testbed.mesh import running_mesh
from tools.sbom import LOCKS

pytestmark = pytest.mark.untimed

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built anew."""
    directory = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)], ROOT)
    (built,) = directory.glob("braid_streams-*.whl")
    return built


@pytest.fixture(scope="module")
def clean_venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and its dependencies, and nothing of this checkout.

    The dependencies are those of the environment that runs the tests; the line that makes the checkout importable
    there (a `.pth` file) has no effect here, for such files count only in an environment's own directory.
    """
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)], venv.parent)
    python = venv / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    run([sys.executable, "-m", "pip", "--python", str(python), *install], venv.parent)
    site = Path(run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], venv).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv


def run(command: Sequence[str], directory: Path, **environment: str) -> str:
    """The output of a command; fails with all of it if the command does."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "PYTHON"))}
    answer = subprocess.run(command, cwd=directory, capture_output=True, text=True, env={**env, **environment})
    assert answer.returncode == 0, f"{command}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout


def test_only_braid_lands_in_site_packages(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"braid"}


def test_the_wheel_carries_what_the_mesh_needs(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "braid/py.typed",
        "braid/_mesh/services/registry/__main__.py",
        "braid/_mesh/services/assigner/__main__.py",
        "braid/_mesh/devmesh/toolchain/kafka-4.3.1.sha256",
        "braid/_mesh/devmesh/toolchain/etcd/go.sum",
    } <= names
    assert not [name for name in names if "/tests/" in name or name.endswith((".pyc", ".log"))]


def test_the_wheel_says_what_a_release_is_made_of(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if "/sboms/" in name}
    assert found == {f"{each}.cdx.json": (ROOT / "requirements" / f"{each}.cdx.json").read_bytes() for each in LOCKS}


@pytest.mark.parametrize("arguments", [["--help"], ["dev", "--help"]])
def test_the_command_runs(clean_venv: Path, arguments: list[str]) -> None:
    assert "Usage" in run([str(clean_venv / "bin" / "braid"), *arguments], clean_venv)


def test_the_library_is_the_installed_one(clean_venv: Path) -> None:
    printed = run([str(clean_venv / "bin" / "python"), "-c", "import braid; print(braid.__file__)"], clean_venv)
    assert clean_venv in Path(printed.strip()).parents


def test_services_are_importable_only_once_asked_for(clean_venv: Path) -> None:
    code = (
        "import importlib.util, braid._mesh; assert importlib.util.find_spec('services') is None; "
        "braid._mesh.enable(); import services.registry.domain.streams as domain; print(domain.__file__)"
    )
    printed = run([str(clean_venv / "bin" / "python"), "-c", code], clean_venv)
    assert clean_venv in Path(printed.strip()).parents


def test_a_process_of_the_mesh_starts(clean_venv: Path) -> None:
    command = "braid._mesh.mesh_command('devmesh.toolchain.java')"
    code = f"import subprocess, sys, braid._mesh; sys.exit(subprocess.call({command}))"
    run([str(clean_venv / "bin" / "python"), "-c", code], clean_venv)


@pytest.mark.parametrize("part", ["member", "producer", "verdict"])
def test_a_drills_processes_and_its_judge_are_the_installed_ones(clean_venv: Path, part: str) -> None:
    code = f"import importlib; print(importlib.import_module('braid.drill.{part}').__file__)"
    printed = run([str(clean_venv / "bin" / "python"), "-c", code], clean_venv)
    assert clean_venv in Path(printed.strip()).parents


@pytest.mark.real
@pytest.mark.extended
@pytest.mark.timeout(600)
def test_a_drill_is_played_and_judged_by_what_the_wheel_carries(clean_venv: Path, tmp_path: Path) -> None:
    """Operators have no checkout: the drill's processes, and the ledger that judges them, are the installed ones."""
    braid = str(clean_venv / "bin" / "braid")
    with running_mesh(tmp_path / "mesh", registries=1, assigners=1, secure=True) as mesh:
        named = {"BRAID_ENDPOINT": mesh.ready.endpoint, **environment_of(mesh.tls)}
        run([braid, "create", "stream", "logs", "--lane", "live=2"], tmp_path, **named)
        drill = [braid, "drill", "move", "--stream", "logs", "--for", "3s", "--yes", "-o", "json"]
        told = json.loads(run(drill, tmp_path, **named))
    assert told["passed"], told
    assert told["records"]["acknowledged"] > 100
    assert told["records"]["lost"] == 0
