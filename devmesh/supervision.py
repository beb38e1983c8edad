"""A supervisor's decisions about processes that end by themselves. Pure: states in, actions out.

A service (and the store's own process) that crashed is started again, later and later; a Kafka cluster is not: that a
cluster dies is what a mesh is there to show. What a fault verb put down, and what ended while it was paused, stays down
until `start`. A process that ran for a while starts counting its crashes anew.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from devmesh.limits import DEV_RESTART_SECONDS, DEV_STEADY_SECONDS


class ProcessKind(StrEnum):
    """The kind of a process of the mesh."""

    CLUSTER = "cluster"
    STORE = "store"
    SERVICE = "service"
    CONSOLE = "console"


class DesiredState(StrEnum):
    """The state that people want a process to be in."""

    RUN = "run"
    PAUSE = "pause"
    REST = "rest"


class Verb(StrEnum):
    """An action that a process needs."""

    NOTE_END = "note end"
    RESTART = "restart"
    FORGIVE = "forgive"


class ProcessState(NamedTuple):
    """One process as it looks now.

    Attributes:
        name: Of the process.
        kind: Decides whether it is started again.
        desired: The last fault verb's, RUN at first.
        alive: Whether it runs (paused counts).
        busy: Whether a verb is at work on it; then nothing else is done.
        crashes: How often it ended by itself in a row.
        ended_at: When its end was noted, None while none is.
        started_at: When it was last started. Seconds on one clock, like `ended_at`.
    """

    name: str
    kind: ProcessKind
    desired: DesiredState
    alive: bool
    busy: bool
    crashes: int
    ended_at: float | None
    started_at: float


class Action(NamedTuple):
    """An action, and the process that needs it."""

    verb: Verb
    name: str


RESTARTED: Final = (ProcessKind.SERVICE, ProcessKind.STORE, ProcessKind.CONSOLE)


def plan(states: Sequence[ProcessState], now: float) -> list[Action]:
    """The actions due at a time (seconds on the states' clock)."""
    found = ((_due(state, now), state.name) for state in states if not state.busy)
    return [Action(verb, name) for verb, name in found if verb is not None]


def backoff_seconds(crashes: int) -> float:
    """How long after its end a process is started again, by how often it crashed in a row (from 1)."""
    first, longest = DEV_RESTART_SECONDS
    return min(longest, first * 2.0 ** min(crashes - 1, 20))


def start_stages(
    clusters: Sequence[str], services: Sequence[str], store: Sequence[str], fresh: bool
) -> list[list[str]]:
    """Groups of processes that start at once, in order.

    On a directory with data the services wait for the clusters: a registry that found them all silent would declare
    them down and move their streams.
    """
    stages = [store, [*clusters, *services]] if fresh else [store, clusters, services]
    return [list(stage) for stage in stages if stage]


def stop_stages(clusters: Sequence[str], services: Sequence[str], store: Sequence[str]) -> list[list[str]]:
    """Groups of processes that stop at once, in order: no process loses what it needs to end well."""
    return [list(stage) for stage in (services, clusters, store) if stage]


def _due(state: ProcessState, now: float) -> Verb | None:
    if state.alive:
        steady = state.crashes and now - state.started_at >= DEV_STEADY_SECONDS
        return Verb.FORGIVE if steady else None
    if state.desired == DesiredState.REST:
        return None
    if state.ended_at is None:
        return Verb.NOTE_END
    restarts = state.kind in RESTARTED and state.desired == DesiredState.RUN
    return Verb.RESTART if restarts and now >= state.ended_at + backoff_seconds(state.crashes) else None
