"""The work of `drill`: announces the failure, asks, runs the drill, prints the verdict, and cleans up after others."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from braid.cli.core.asking import ask
from braid.cli.core.lists import all_streams
from braid.cli.core.output import API_VERSION, Format, render_document
from braid.cli.core.session import Session, missing_among
from braid.drill.control import Control
from braid.drill.plan import DrillKind, Order, Plan, make_plan
from braid.drill.rehearsal import Rehearsal
from braid.drill.remains import find_remains, remove_remains
from braid.drill.verdict import DrillVerdict
from braid.kernel.errors import NotFound

EXIT_NOT_PASSED: Final = 1
_ID_CHARACTERS: Final = 8


async def rehearse(session: Session, order: Order, addresses: str, yes: bool, format: Format) -> int:
    """Runs one drill and prints its verdict.

    Raises:
        NotFound: the stream does not exist; the nearest one is named.
        Refused: the answer was not yes.
        BraidError: the drill cannot be run on this mesh.
    """
    control = Control(session.mesh, session.ports.kafka)
    try:
        stream = await control.stream(order.stream)
    except NotFound as error:
        raise await missing_among(error, order.stream, all_streams(session)) from error
    id = session.ports.host.ids.ulid()[-_ID_CHARACTERS:].lower()
    plan = make_plan(order, id, stream, await control.clusters())
    for line in told(plan):
        session.terminal.note(line)
    if not yes:
        ask("Play it?", "the drill was not run")
    await _remove(session, control, await find_remains(control, session.now_ms))
    directory = Path(tempfile.mkdtemp(prefix=f"braid-{plan.name}-"))
    rehearsal = Rehearsal(control, plan, addresses, directory, session.terminal.note, session.ports.tls)
    verdict = None
    try:
        verdict = await rehearsal.play()
    finally:
        if rehearsal.left_behind:
            session.terminal.note(f"stream {plan.name} is left behind ({rehearsal.left_behind}): braid drill clean")
        if verdict is not None and verdict.passed:
            shutil.rmtree(directory)
        else:
            session.terminal.note(f"ledger, sinks and logs are in {directory}")
    _print(session, verdict, format)
    return 0 if verdict.passed else EXIT_NOT_PASSED


async def clean(session: Session, yes: bool) -> int:
    """Removes the remains of drills that were killed."""
    control = Control(session.mesh, session.ports.kafka)
    names = await find_remains(control, session.now_ms, young_too=True)
    if not names:
        session.terminal.print("no drill was left behind")
        return 0
    if not yes:
        ask(f"Remove {', '.join(names)}?", "they stay")
    return 0 if await _remove(session, control, names) else EXIT_NOT_PASSED


def told(plan: Plan) -> Sequence[str]:
    """The announcement of a drill, a sentence a line."""
    order, cluster = plan.order, plan.cluster
    does = {
        DrillKind.MOVE: f"it is moved off {cluster}",
        DrillKind.CLUSTER_LOSS: f"its own processes refuse connections to cluster {cluster}",
        DrillKind.BROKER_LOSS: f"its own processes refuse connections to broker {order.broker} of cluster {cluster}",
        DrillKind.MEMBER_LOSS: "one of its own consuming processes is killed",
    }
    lanes = ", ".join(plan.lanes)
    return [
        f"this makes stream {plan.name} (lanes {lanes}) on {', '.join(plan.spec.clusters)}, like stream {order.stream}",
        f"{order.rate_per_s} records a second for {order.seconds:g} s; after a third of it {does[order.kind]}",
        f"stream {order.stream} is not touched; stream and group {plan.name} are removed in the end",
    ]


async def _remove(session: Session, control: Control, names: Sequence[str]) -> bool:
    gone = await remove_remains(control, names)
    for name in gone:
        session.terminal.note(f"removed stream and group {name}, which a killed drill had left behind")
    left = [name for name in names if name not in gone]
    if left:
        session.terminal.note(f"not removed: {', '.join(left)}; try again: braid drill clean")
    return not left


def _print(session: Session, verdict: DrillVerdict, format: Format) -> None:
    plan = verdict.plan
    if format is Format.JSON:
        document = {"apiVersion": API_VERSION, "kind": "Drill", **verdict.document()}
        session.terminal.print(render_document(format, document))  # type: ignore[arg-type]
        return
    width = max(len(what) for what, _ in verdict.rows())
    lines = [f"{plan.order.kind.value} of stream {plan.order.stream}: {'PASSED' if verdict.passed else 'NOT PASSED'}"]
    lines += [f"  {what:{width}}  {value:>10}" for what, value in verdict.rows()]
    lines += [f"failed: {each}" for each in verdict.complaints()]
    lines += ["", "What was simulated, not broken:", *(f"  {each}" for each in verdict.simulated())]
    lines += ["", f"its history: braid events --for stream/{plan.name}"]
    session.terminal.print("\n".join(lines))
