"""Actions of operators in a run: rules, splits, resets, moves and decommissions, taken back when they are healed."""

import asyncio

from tests.simulation.absence import move_and_reset
from tests.simulation.emptying import ClusterOperator
from tests.simulation.faults.schedule import Schedule
from tests.simulation.operations import Operation, Operator, carry_out
from tests.simulation.splitting import splitting


class OperatorFaults:
    """Orders of operators; each method is a kind of fault."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._world, self._dice = schedule, schedule.world, schedule.dice
        self._operator = Operator(self._world, self._dice)
        self._cluster_operator = ClusterOperator(self._world, self._dice)

    def reset_progress(self) -> None:
        """The stream moves, its group leaves for a while, and meanwhile its progress is reset."""
        self._world.host.tasks.spawn(
            move_and_reset(self._world, self._dice, lambda: self._schedule.happen("members-leave")), "reset"
        )

    def operate(self) -> None:
        """A rule of the group, taken back when it is healed."""
        operation, over = self._operator.next(), asyncio.Event()
        self._world.host.tasks.spawn(carry_out(self._world, self._world.assigner, operation, over), "operate")
        self._schedule.begin(operation.text, self._dice.uniform(3.0, 15.0), over.set)

    def split_lease(self) -> None:
        """Somebody wants a lane's leases worked on at their head and behind it; that ends by itself."""
        operation, over = splitting(self._dice), asyncio.Event()
        self._world.host.tasks.spawn(carry_out(self._world, self._world.assigner, operation, over), "split")
        over.set()
        self._world.journal.say(f"FAULT {operation.text}")

    def empty_cluster(self) -> None:
        """A cluster is decommissioned, taken back when it is healed."""
        self._ask(self._cluster_operator.emptying())

    def evacuate_cluster(self) -> None:
        """The same, and what is drained is kept."""
        self._ask(self._cluster_operator.emptying(discards=False))

    def share_stream(self) -> None:
        self._ask(self._cluster_operator.sharing())

    def resize_lane(self) -> None:
        self._ask(self._cluster_operator.resizing())

    def _ask(self, order: Operation) -> None:
        over = asyncio.Event()
        self._world.host.tasks.spawn(carry_out(self._world, self._world.registry, order, over), "cluster operator")
        self._schedule.begin(order.text, self._dice.uniform(3.0, 25.0), over.set)

    def move_stream(self) -> None:
        cluster = self._dice.choice(self._world.plan.clusters)
        self._world.journal.say(f"FAULT planned move to {cluster}")
        self._world.host.tasks.spawn(self._world.move(cluster), "move")
