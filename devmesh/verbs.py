"""Fault verbs on one process of a mesh: each waits for its effect and says what happened. Calls block."""

import time
from collections.abc import Sequence
from typing import Final

import psutil

from braid.kernel.errors import Refused, Unavailable
from devmesh.limits import DEV_POLL_SECONDS, DEV_STEP_SECONDS, DEV_STOP_SECONDS
from devmesh.processes.process import Process
from devmesh.supervision import DesiredState

# What a verb makes people want of the process.
DESIRED: Final = {
    "kill": DesiredState.REST,
    "stop": DesiredState.REST,
    "start": DesiredState.RUN,
    "pause": DesiredState.PAUSE,
    "resume": DesiredState.RUN,
}


def apply(verb: str, process: Process) -> str:
    """Carries a verb of `DESIRED` out.

    Returns:
        What happened, as one sentence.

    Raises:
        Refused: the process is not in a state for it.
        Unavailable: the effect did not come in time.
    """
    return {"kill": _kill, "stop": _stop, "start": _start, "pause": _pause, "resume": _resume}[verb](process)


def check_rollable(name: str, brokers: Sequence[Process]) -> None:
    """Raises `Refused` unless these are several brokers, which all run and none of which is paused."""
    if len(brokers) == 1:
        raise Refused(
            f"{name} is not a cluster of several brokers: its restart is an outage",
            remedy=f"`braid dev stop {name}`, then `braid dev start {name}`",
        )
    for broker in brokers:
        if is_paused(_running(broker)):
            raise Refused(f"{broker.name} is paused", remedy=f"`braid dev resume {broker.name}` lets it go on")


def is_paused(pid: int) -> bool:
    """Whether a process is frozen."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _kill(process: Process) -> str:
    pid = _running(process)
    process.kill()
    return f"{process.name} is dead (process {pid}, SIGKILL)"


def _stop(process: Process) -> str:
    pid = _running(process)
    begun = time.monotonic()
    in_order = process.stop()
    seconds = time.monotonic() - begun
    how = "in order" if in_order else "by force, it did not end in order"
    return f"{process.name} ended {how} after {seconds:.1f} s (process {pid})"


def _start(process: Process) -> str:
    if process.pid is not None:
        what = "paused; `resume` it" if is_paused(process.pid) else "running already"
        raise Refused(f"{process.name} is {what}")
    begun = time.monotonic()
    process.start()
    process.wait_ready(DEV_STEP_SECONDS)
    return f"{process.name} serves again after {time.monotonic() - begun:.1f} s (process {process.pid})"


def _pause(process: Process) -> str:
    pid = _running(process)
    process.pause()
    _wait(pid, True, process)
    return f"{process.name} is paused (process {pid}): connections stay open, nothing answers"


def _resume(process: Process) -> str:
    pid = _running(process)
    if not is_paused(pid):
        raise Refused(f"{process.name} is not paused")
    process.resume()
    _wait(pid, False, process)
    return f"{process.name} goes on (process {pid})"


def _running(process: Process) -> int:
    pid = process.pid
    if pid is None:
        raise Refused(f"{process.name} does not run", remedy=f"`braid dev start {process.name}` starts it")
    return pid


def _wait(pid: int, paused: bool, process: Process) -> None:
    deadline = time.monotonic() + DEV_STOP_SECONDS
    while is_paused(pid) != paused:
        if process.pid is None or time.monotonic() > deadline:
            raise Unavailable(f"{process.name} {'ended' if process.pid is None else 'did not heed the signal'}")
        time.sleep(DEV_POLL_SECONDS)
