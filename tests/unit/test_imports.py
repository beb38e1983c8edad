"""The import rule holds for what exists, and each contract turns red on an import that breaks it."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]

PACKAGES: Final = (
    *("braid", "braid.kernel", "braid.api", "braid.host", "braid.stores", "braid.kafka", "braid.rpc", "braid.runtime"),
    *("braid.client", "braid.spark", "braid.testing", "braid.cli", "braid._mesh", "services"),
    *("pipelines", "console", "devmesh", "demo", "braid.archive", "braid.drill", "testbed"),
)

ROOMS: Final = ("services/*", "braid/cli", "braid/client", "braid/kafka", "devmesh")  # whose packages have layers

# (module, statement): each must be refused.
MUTANTS: Final = (
    ("braid.kernel.clock", "import time"),
    ("braid.kernel.loop", "import asyncio"),
    ("braid.kernel.dice", "from random import random"),
    ("braid.kernel.wire", "import socket"),
    ("braid.kernel.words", "import logging"),
    ("braid.kernel.remote", "import grpc"),
    ("braid.kernel.broker", "from aiokafka import AIOKafkaProducer"),
    ("braid.kernel.upward", "import braid.rpc"),
    ("braid.api.extra", "import braid.kernel"),
    ("braid.sync", "import braid.rpc"),
    ("braid.host.upward", "import braid.runtime"),
    ("braid.stores.memory", "import sqlite3"),
    ("braid.stores.memory_clock", "import time"),
    ("braid.stores.sqlite", "import grpc"),
    ("braid.stores.etcd_client", "import braid.rpc"),
    ("braid.kafka.cluster", "import braid.client"),
    ("braid.kafka.memory.twin", "import aiokafka"),
    ("braid.rpc.channel", "import structlog"),
    ("braid.rpc.store", "import sqlite3"),
    ("braid.runtime.broker", "import braid.kafka"),
    ("braid.client.records.clock", "import time"),
    ("braid.client.records.dice", "import random"),
    ("braid.client.telemetry.spans", "from opentelemetry.sdk import trace"),
    ("braid.client.telemetry.tracing_too", "import opentelemetry.sdk.trace"),
    ("braid.telemetry.tracing", "import opentelemetry.sdk.trace"),
    ("braid.telemetry.exporting", "import grpc"),
    ("braid.client.producing.broker", "import aiokafka"),
    ("braid.client.producing.remote", "import grpc"),
    ("braid.client.producing.server", "import braid.runtime"),
    ("braid.spark.remote", "import braid.rpc"),
    ("braid.testing.remote", "import braid.rpc"),
    ("braid.testing.broker", "import braid.kafka.cluster"),
    ("braid.cli.core.get", "import devmesh"),
    ("braid.drill.verdict", "import time"),
    ("braid.drill.rehearsal", "import aiokafka"),
    ("braid.cli.dev", "import services"),
    ("braid._mesh.locate", "import devmesh"),
    ("services.lagmon.alerts.rule_files", "import time"),
    ("services.lagmon.alerts.decisions.rules", "import services.lagmon.alerts.watch"),
    ("services.lagmon.alerts.decisions.tracker", "import time"),
    ("services.lagmon.pathways.store", "import braid.api"),
    ("services.registry.domain.streams", "import braid.api"),
    ("services.lagmon.kept.ring", "import time"),
    ("services.lagmon.kept.files", "import socket"),
    ("services.registry.policy.plan", "import datetime, time"),
    ("services.registry.health.judge", "import services.registry.codec.events"),
    ("services.registry.model.channels", "import braid.runtime"),
    ("services.registry.__init__", "import services.assigner.domain.decide"),
    ("services.registry.codec.events", "import services.assigner"),
    ("services.registry.reconciler.loop", "import braid.api"),
    ("braid.archive.chain", "import asyncio"),
    ("braid.cli.store.verbs", "import services"),
    ("braid.cli.certs.verbs", "import devmesh"),
    ("braid.cli.certs.revoking", "import braid.certs.authority"),
    ("braid.certs.contents", "import cryptography"),
    ("braid.certs.authority", "import braid.rpc"),
    ("braid.archive.directory", "import braid.runtime"),
    ("services.registry.peers", "import services.assigner.domain.decide"),
    ("services.registry.config", "import braid.rpc"),
    ("services.assigner.reconciler.term", "import braid.client"),
    ("services.assigner.servicer.service", "import pydantic_settings"),
    ("services.assigner.__main__", "from time import sleep"),
    ("services.dlq.reconciler.term", "import services.registry"),
    ("services.dlq.index.letter_index", "import braid.client"),
    ("pipelines.jobs", "import braid.kafka"),
    ("console.server", "import braid.stores"),
    ("console.server.live.feed", "import starlette"),
    ("console.server.messages.reading", "import braid.kafka"),
    ("console.server.messages.schemas.http", "import starlette"),
    ("console.server.oidc.provider", "import starlette"),
    ("console.server.web.api", "import uvicorn"),
    ("console.server.process", "import braid.stores"),
    ("devmesh.processes.ports", "import braid.client"),
    ("demo.acts", "import services"),
    ("demo.proof.ledger", "import braid"),
    ("demo.tests", "import tests"),
    ("testbed.members.joining", "import tests"),
    ("testbed.checkers.told", "import bench"),
    ("bench.produce", "import tests"),
)

# (module, statement): a package that imports one beside or above it, a module in no layer.
LAYER_MUTANTS: Final = (
    ("services.registry.model.topics", "import services.registry.policy.plan"),
    ("services.registry.policy.spares", "import services.registry.domain.streams"),
    ("services.assigner.policy.costs", "import services.assigner.domain.decide"),
    ("services.dlq.model.letters", "import services.dlq.domain.replay"),
    ("services.lagmon.model.lag", "import services.lagmon.policy"),
    ("braid.client.records.record", "import braid.client.delivery.cursor"),
    ("braid.kafka.batches.batch", "import braid.kafka.admin"),
    ("braid.cli.resources.lag.listing", "import braid.cli.doctor.verbs"),
    ("devmesh.toolchain.jars", "import devmesh.mesh"),
)

ALLOWED: Final = (
    ("braid.kernel.algebra", "import dataclasses, math, numpy"),
    ("braid.stores.sqlite", "import sqlite3, time\nimport braid.kernel"),
    (
        "braid.client.telemetry.spans",
        "import asyncio\nfrom opentelemetry import trace, metrics\nimport braid.kafka, braid.rpc",
    ),
    ("braid.cli.dev", "import devmesh, typer, braid._mesh"),
    ("services.registry.domain.streams", "from services.registry import model\nimport braid.kernel"),
    ("services.registry.health.judge", "import services.registry.policy.plan"),
    ("services.registry.reconciler.loop", "from services.registry import codec, domain\nimport braid.kafka, structlog"),
    ("services.registry.policy.plan", "import numpy"),
    ("services.registry.servicer.methods", "import braid.api\nfrom services.registry import codec, domain"),
    ("services.registry.codec.events", "import google.protobuf"),
    ("services.registry.config", "import pydantic_settings"),
    ("services.dlq.reconciler.term", "import braid.client"),
    ("demo.acts", "import braid, psutil, devmesh"),
)


def check(root: Path) -> tuple[int, str]:
    """Runs the checker over a checkout; its exit code and what it printed."""
    answer = subprocess.run(
        [sys.executable, "-m", "tools.layering", str(root)], cwd=ROOT, capture_output=True, text=True
    )
    return answer.returncode, (answer.stdout + answer.stderr).strip()


def write_checkout(root: Path, *modules: tuple[str, str]) -> Path:
    """Writes the packages, empty, and the given modules with the packages they are in."""
    layered = [path for room in ROOMS for path in ROOT.glob(room)]  # each layer of the real ones must exist
    inner = {module.rpartition(".")[0] for module, _ in modules} | {
        ".".join(path.parent.relative_to(ROOT).parts) for room in layered for path in room.glob("*/*.py")
    }
    for path in (path for room in layered for path in room.glob("*.py")):
        root.joinpath(path.relative_to(ROOT).parent).mkdir(parents=True, exist_ok=True)
        (root / path.relative_to(ROOT)).touch()
    for package in sorted({*PACKAGES, *inner}):
        directory = root.joinpath(*package.split("."))
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "__init__.py").touch()
    for module, source in modules:
        root.joinpath(*module.split(".")).with_suffix(".py").write_text(f"{source}\n")
    return root


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on a checkout that breaks every contract."""
    targets = (
        ("services.assigner.domain.decide", ""),
        ("services.dlq.domain.replay", ""),
        ("braid.cli.doctor.verbs", ""),
        ("braid.client.delivery.cursor", ""),
        ("services.registry.codec.events", ""),
    )
    code, report = check(write_checkout(tmp_path_factory.mktemp("broken"), *targets, *MUTANTS, *LAYER_MUTANTS))
    assert code == 1
    return report


@pytest.mark.parametrize(("module", "statement"), MUTANTS)
def test_a_forbidden_import_is_refused(broken: str, module: str, statement: str) -> None:
    assert f"{module.removesuffix('.__init__')}:1 may not import " in broken


@pytest.mark.parametrize(("module", "statement"), LAYER_MUTANTS)
def test_an_import_upwards_is_refused(broken: str, module: str, statement: str) -> None:
    assert f"{module} -> {statement.removeprefix('import ')}" in broken


def test_a_module_in_no_layer_is_refused(tmp_path: Path) -> None:
    code, report = check(write_checkout(tmp_path, ("services.registry.novelty", "")))
    assert code == 1
    assert "novelty" in report


def test_every_contract_is_broken_by_some_mutant(broken: str) -> None:
    assert [line for line in broken.splitlines() if line.endswith("KEPT")] == ["every module is owned KEPT"]


def test_allowed_imports_are_kept(tmp_path: Path) -> None:
    assert check(write_checkout(tmp_path, *ALLOWED)) == (0, "")


def test_a_new_package_is_held_to_the_rule_at_once(tmp_path: Path) -> None:
    root = write_checkout(tmp_path)
    (root / "braid" / "novelty").mkdir()
    (root / "braid" / "novelty" / "__init__.py").touch()
    (root / "extra").mkdir()
    (root / "extra" / "__init__.py").touch()
    code, report = check(root)
    assert code == 1
    assert "braid.novelty is owned by no contract" in report
    assert "extra is owned by no contract" in report


def test_a_module_outside_any_package_is_seen(tmp_path: Path) -> None:
    root = write_checkout(tmp_path)
    (root / "braid" / "client" / "parts").mkdir()
    (root / "braid" / "client" / "parts" / "hidden.py").write_text("import time\n")
    code, report = check(root)
    assert code == 1
    assert "braid.client.parts.hidden is no part of a package" in report
