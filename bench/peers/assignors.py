"""Peers for placing partitions: sticky assignors of aiokafka and kafka-python, and the solver rebalancer.

aiokafka is always there. The others are of the extra `bench` (`requirements/bench.txt`) and play where they are
installed: nothing else needs them, and rebalancer, of 400 MB, has no wheels before Python 3.12.
"""

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Final, NamedTuple

import numpy as np
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.protocol.metadata import MetadataResponse_v1
from numpy.typing import NDArray

Assign = Callable[[], int]  # returns how many partitions it has placed

SOLVER_SECONDS: Final = 60  # the solver stops then, with whatever it has
_NOT_INSTALLED: Final = "not installed; requirements/bench.txt brings it (Python 3.12 or later for rebalancer)"


class Topics:
    """The part of a cluster's metadata that an assignor uses: a number of topics, each with a number of partitions."""

    def __init__(self, count: int, partitions: int) -> None:
        self._ids = {f"topic-{number}": set(range(partitions // count)) for number in range(count)}

    def topics(self) -> set[str]:
        """Their names."""
        return set(self._ids)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """A topic's partitions."""
        return self._ids.get(topic)

    def of_aiokafka(self) -> ClusterMetadata:
        """The topics in aiokafka's form."""
        known = ClusterMetadata()
        topics = [(0, name, False, [(0, each, 0, [0], [0]) for each in sorted(ids)]) for name, ids in self._ids.items()]
        known.update_metadata(MetadataResponse_v1([(0, "localhost", 9092, None)], 0, topics))
        return known


class Joined(NamedTuple):
    """A member as kafka-python's coordinator hands it to an assignor."""

    member_id: str
    metadata: object


def installed(package: str) -> str:
    """The version of a distribution, or why it does not play."""
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package}: {_NOT_INSTALLED}"


def aiokafka_sticky(topics: Topics, members: Sequence[str]) -> Assign:
    """aiokafka's, for a group that begins. It parses each member's metadata and builds its answer."""
    known = topics.of_aiokafka()
    asking = {member: StickyPartitionAssignor.metadata(topics.topics()) for member in members}

    def assign() -> int:
        assigned = StickyPartitionAssignor.assign(known, asking)
        return sum(len(ids) for each in assigned.values() for _, ids in each.assignment)

    return assign


def kafka_python_sticky(topics: Topics, members: Sequence[str]) -> Assign | None:
    """kafka-python's, likewise; None where it is not installed."""
    try:
        module: Any = importlib.import_module("kafka.coordinator.assignors.sticky.sticky_assignor")
    except ModuleNotFoundError:
        return None
    assignor = module.StickyPartitionAssignor()
    asking = [Joined(member, assignor.metadata(topics.topics())) for member in members]

    def assign() -> int:
        assigned = assignor.assign(topics, asking)
        return sum(len(ids) for each in assigned.values() for _, ids in each.assigned_partitions)

    return assign


class Solved(NamedTuple):
    """A solver's answer to a death: seconds, partitions the dead still hold, max/mean of the others, moves."""

    seconds: float
    left: int
    evenness: float
    moved: int

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s, {self.left} partitions left with the dead, "
            f"max/mean {self.evenness:.3f}, {self.moved} moved"
        )


def solved(weights: NDArray[np.float64], members: int, dying: int) -> Solved | None:
    """The first members die; rebalancer drains them and balances costs over the others. None without it.

    Its fastest local search, stopped after `SOLVER_SECONDS`.
    """
    try:
        module: Any = importlib.import_module("rebalancer")
    except ModuleNotFoundError:
        return None
    names = [f"p{number}" for number in range(len(weights))]
    dead = [f"m{number}" for number in range(dying)]
    before = {f"m{number}": names[number::members] for number in range(members)}
    began = time.perf_counter()
    solver = module.ProblemSolver("bench", "bench")
    solver.set_log_level("ERROR")
    solver.disable_solution_summary()
    solver.set_object_name("partition")
    solver.set_container_name("member")
    solver.set_assignment(before)
    solver.add_object_dimension("cost", dict(zip(names, weights.tolist(), strict=True)))
    solver.add_constraint({"toFreeSpec": {"name": "dead", "containers": dead}})
    even = {"name": "even", "scope": "member", "dimension": "cost", "filter": {"itemsBlacklist": dead}}
    solver.add_goal({"balanceSpec": even})
    search = {"solveTime": SOLVER_SECONDS, "moveTypeList": [{"singleFastMoveTypeSpec": {}}]}
    solver.add_solver({"localSearchSolverSpec": search})
    placed: Mapping[str, str] = solver.solve()["assignment"]
    took = time.perf_counter() - began
    return _judged(took, list(_holders(placed, names)), weights, members, dying)


def _holders(placed: Mapping[str, str], names: Sequence[str]) -> Iterator[int]:
    return (int(placed[name][1:]) for name in names)


def _judged(took: float, holders: Sequence[int], weights: NDArray[np.float64], members: int, dying: int) -> Solved:
    """Judges an answer to the death of the first members, if each member held every nth partition."""
    loads = np.bincount(holders, weights, members)[dying:]
    moved = int(np.count_nonzero(np.array(holders) != np.arange(len(holders)) % members))
    left = sum(holder < dying for holder in holders)
    return Solved(took, left, float(loads.max() / loads.mean()), moved)
