"""The commands that carry a started move one step further: channels first, then the traffic of all lanes at once. Pure.

It is an operator's move (`policy/moves.py`) with a cause: the same checks, the same append.
"""

from collections.abc import Sequence
from dataclasses import replace

from services.registry.model.stream_commands import MoveTraffic, PlanChannel
from services.registry.model.streams import Stream
from services.registry.policy.balancing.steps import StartMove
from services.registry.policy.moves import MoveOrder, as_command, plan_move
from services.registry.policy.world import World


def advance(world: World, stream: Stream, move: StartMove) -> Sequence[PlanChannel | MoveTraffic]:
    """Returns the next commands; none once the traffic is where it should be, or has left by another way.

    Raises:
        BraidError: the move is not possible any more.
    """
    made = move.rebalance
    lanes = tuple(lane for lane in move.lanes if [each.cluster for each in stream.active(lane)] == [made.from_cluster])
    if not lanes:
        return []
    order = MoveOrder(lanes, to_cluster=made.to_cluster, reason=made.reason)
    moves = plan_move(world, stream, order)
    prefix = world.cluster(made.to_cluster).spec.topic_prefix
    missing = [PlanChannel(each.lane, each.cluster, prefix, each.partitions) for each in moves if each.to is None]
    if missing or not moves:
        return missing
    return [replace(as_command(world, stream, moves, f"balance: {made.reason}"), rebalance=made)]
