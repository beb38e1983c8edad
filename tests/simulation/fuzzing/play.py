"""Plays rounds of hostile calls on fresh meshes, and judges each."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import random
import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from tests.simulation.fuzzing.calls import Caller, Finding
from tests.simulation.fuzzing.coverage import Coverage
from tests.simulation.fuzzing.mesh import SERVING, FuzzedLoop, FuzzedMesh, names
from tests.simulation.fuzzing.values import Requests
from tests.unit.kernel.access.api import Method, methods

SETTLE_SECONDS: Final = 3.0
STUCK_SECONDS: Final = 20.0  # of processor time without an end of a call
# Within a round. What callers were allowed to make is kept: a stream that two groups read, moved to 10,000 partitions,
# takes about 40 MiB. A usual round grows by 2 MiB.
RSS_GROWTH_MAX: Final = 200 << 20
TAKING_AWAY: Final = ("Delete", "EndDrill", "Decommission", "Revoke")
_PAGE_BYTES: Final = 4_096


class Stuck(KeyboardInterrupt):  # asyncio lets no other exception out of a task
    """A handler holds the loop."""


@dataclass(frozen=True)
class Fault:
    """Something that no caller may bring about.

    Attributes:
        seed: Of the round.
        method: The call that it followed.
        what: In a line.
        request: That call's request.
        trace: Where.
    """

    seed: int
    method: str
    what: str
    request: str = ""
    trace: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.method}: {self.what}\n  {self.request[:600]}\n{self.trace}"


@dataclass
class Round:
    """The findings of a round, and how slow its slowest call was in processor time."""

    seed: int
    faults: list[Fault] = field(default_factory=list)
    slowest: tuple[float, str, str] = (0.0, "", "")
    grown_bytes: int = 0


def play(seed: int, calls: int, coverage: Coverage, only: Sequence[Method] = ()) -> Round:
    """Plays a round: so many calls on a mesh of its own. The same seed plays the same calls."""
    loop, played = FuzzedLoop(), Round(seed)
    with TemporaryDirectory() as directory:
        try:
            loop.run_until_complete(_play(Path(directory), played, calls, coverage, only or methods()))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            loop.cancel_all()
            loop.close()
    gc.collect()
    return played


async def _play(directory: Path, played: Round, calls: int, coverage: Coverage, only: Sequence[Method]) -> None:
    mesh = await FuzzedMesh(directory, played.seed).start()
    dice = random.Random(played.seed)
    caller = Caller(mesh, dice, Requests(dice, names(mesh.replays, mesh.approvals)), coverage)
    logging.getLogger("braid").addHandler(mesh.log)
    before = rss_bytes()
    signal.signal(signal.SIGVTALRM, _stuck)
    try:
        for _ in range(calls):
            await _one(mesh, caller, _chosen(dice, only), played)
        await asyncio.sleep(SETTLE_SECONDS)
        played.faults += [_fault(played, "afterwards", error) for error in mesh.errors()]
        played.faults += [Fault(played.seed, "afterwards", what) for what in await unlike(mesh)]
        played.grown_bytes = rss_bytes() - before
        if played.grown_bytes > RSS_GROWTH_MAX:
            played.faults.append(Fault(played.seed, "afterwards", f"grown by {played.grown_bytes >> 20} MiB"))
    finally:
        logging.getLogger("braid").removeHandler(mesh.log)


def _chosen(dice: random.Random, only: Sequence[Method]) -> Method:
    """A method; seldom one that takes away what others are about."""
    method = dice.choice(only)
    return dice.choice(only) if method.name.startswith(TAKING_AWAY) and dice.random() < 0.8 else method


async def _one(mesh: FuzzedMesh, caller: Caller, method: Method, played: Round) -> None:
    name, began = f"{method.service}/{method.name}", time.process_time() - caller.made_seconds
    signal.setitimer(signal.ITIMER_VIRTUAL, STUCK_SECONDS)
    try:
        await caller.call(method)
    except Finding as finding:
        cause = mesh.errors()
        played.faults.append(_fault(played, name, cause[0] if cause else finding, f"{caller.last}"))
    except Stuck as stuck:
        played.faults.append(_fault(played, name, stuck, f"{caller.last}"))
        raise
    took = time.process_time() - caller.made_seconds - began
    played.faults += [_fault(played, name, error, f"{caller.last}") for error in mesh.errors()]
    if took > played.slowest[0]:
        played.slowest = (took, name, f"{caller.last}"[:300])


async def unlike(mesh: FuzzedMesh) -> list[str]:
    """Histories that fold to another state than the leader has: by a replica that begins now, and from their events."""
    found = []
    for service in SERVING:
        leader = mesh.replicas[mesh.address(service).partition(":")[0]]
        twin = await mesh.twin(service)
        await asyncio.sleep(1.0)
        for kind in mesh.services[leader.instance].kinds.values():
            for id in leader.aggregates.states(kind.erased()):
                if leader.aggregates.state_hash(kind.erased(), id) != twin.aggregates.state_hash(kind.erased(), id):
                    found.append(f"{service} {kind.name}/{id} is another one when it is read again")
                if not await _folds(leader, kind, id):
                    found.append(f"{service} {kind.name}/{id} is another one when all its events are folded")
    return found


async def _folds(replica: Replica, any_kind: AnyKind, id: str) -> bool:
    kind = any_kind.erased()
    history = next(each for each in replica.aggregates.histories(kind.name) if each.id == id)
    state = kind.decider.initial(id)
    for record in await replica.aggregates.events(history):
        state = kind.decider.evolve(state, record.event, record.context)
    return kind.codec.encode_state(state) == kind.codec.encode_state(replica.aggregates.state(kind, id))


def _fault(played: Round, method: str, error: BaseException, request: str = "") -> Fault:
    trace = "".join(traceback.format_exception(error)[-12:])
    return Fault(played.seed, method, f"{type(error).__name__}: {error}"[:300], request, trace)


def _stuck(number: int, frame: object) -> None:
    raise Stuck(f"no call ended within {STUCK_SECONDS:.0f} s of processor time")


def rss_bytes() -> int:
    """Bytes of memory in use, without what the allocator only keeps for later."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
