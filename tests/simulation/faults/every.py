"""All kinds of faults, on one schedule."""

from tests.simulation.faults.clusters import ClusterFaults
from tests.simulation.faults.links import LinkFaults
from tests.simulation.faults.operators import OperatorFaults
from tests.simulation.faults.processes import ProcessFaults
from tests.simulation.faults.schedule import Schedule
from tests.simulation.faults.stores import StoreFaults
from tests.simulation.world import World


def every_fault(world: World, seed: str) -> Schedule:
    """A schedule that knows every kind."""
    schedule = Schedule(world, seed)
    kinds = (OperatorFaults, ClusterFaults, StoreFaults, ProcessFaults, LinkFaults)
    schedule.add(*(kind(schedule) for kind in kinds))
    return schedule
