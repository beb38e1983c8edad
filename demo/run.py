"""A run of the demo from its first process to its exit code: mesh up, story, verdict, mesh down or kept."""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from braid.kernel.errors import BraidError, Unavailable
from demo.afterwards import ways_to_go_on
from demo.display import Display
from demo.plan import Plan
from demo.proof.memory import watching_memory
from demo.proof.verdict import Scenes, Verdict
from demo.stage import DemoFailed, Stage
from demo.story import CLUSTERS, Story
from devmesh.documents import Ready
from devmesh.files import DirectoryLock, MeshFiles
from devmesh.mesh import DevMesh
from devmesh.toolchain.jars import KAFKA_VERSION


async def play(plan: Plan) -> int:
    """Plays everything and prints the verdict; returns the exit code. Whatever happens, no process is left running."""
    display = Display()
    display.title("Braid: a stream survives the death of a Kafka cluster")
    scenes = Scenes(plan.records, kafka=KAFKA_VERSION, event_store=plan.event_store)
    stage = Stage(plan.directory, display)
    left: Ready | None = None
    try:
        left = await _perform(plan, stage, scenes)
    except DemoFailed as failure:
        scenes.failure, scenes.look = str(failure), failure.look
    except BraidError as error:
        scenes.failure, scenes.look = _worded(error), "mesh/dev.log"
    scenes.seconds = display.seconds
    status = _judge(stage, scenes)
    if left is not None:
        display.act(f"the mesh stays: endpoint {left.endpoint}")
        for line in ways_to_go_on(left, _shown(Path(sys.executable).with_name("braid")), int(time.time() * 1_000)):
            display.note(line)
    return status


async def _perform(plan: Plan, stage: Stage, scenes: Scenes) -> Ready | None:
    """From the first process to the last; returns the mesh when it is left running."""
    _refuse_a_second_mesh(stage.path("mesh"))
    stage.prepare()
    stage.display.act("two Kafka clusters, two registries, two assigners, lagmon and dlq start")
    mesh = DevMesh(
        stage.path("mesh"),
        clusters=CLUSTERS,
        store=plan.store,
        lagmons=1,
        dlqs=1,
        secure=plan.secure,
        console=plan.console_port,
        outlive=plan.keep,
    )
    ready = await mesh.up()
    stage.environment = ready.tls_environment
    kept = False
    try:
        async with watching_memory(scenes.held):
            await Story(plan, stage, scenes, mesh, ready).tell()
        kept = plan.keep
    except asyncio.CancelledError:
        stage.display.act("interrupted; everything is ended")
        raise
    finally:
        stage.close()
        if not kept:
            with suppress(Unavailable):  # it is gone already
                await mesh.down()
    return ready if kept else None


def _judge(stage: Stage, scenes: Scenes) -> int:
    """Writes `verdict.json`, prints the table and where to look; returns the exit code."""
    stage.look()
    verdict = Verdict(scenes, stage.evidence)
    stage.directory.mkdir(parents=True, exist_ok=True)
    path = stage.path("verdict.json")
    path.write_text(json.dumps(verdict.document(), indent=2) + "\n")
    display = stage.display
    if stage.evidence.acked:
        display.table(verdict.rows())
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in stage.evidence.kinds.most_common())
        display.note(f"observations: {kinds}")
    complaints = list(verdict.complaints())
    for what, look in complaints[:1] if scenes.failure else complaints:  # the others follow from an early end
        display.complaint(what, _shown(stage.path(look)) if look else "")
    display.verdict(verdict.ok, f"after {scenes.seconds:.1f} s; {_shown(path)}")
    return 0 if verdict.ok else 1


def _refuse_a_second_mesh(directory: Path) -> None:
    """A mesh that an earlier run was asked to keep is not swept away."""
    if DirectoryLock(MeshFiles(directory)).holder() is not None:
        remedy = f"{_shown(Path(sys.executable).with_name('braid'))} dev down --dir {_shown(directory)}"
        raise DemoFailed(f"the mesh of an earlier run is still there; end it: {remedy}")


def _shown(path: Path) -> str:
    """A path as people would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _worded(error: BraidError) -> str:
    return f"{error.message}; {error.remedy}" if error.remedy else error.message
