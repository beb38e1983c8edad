"""Rules of a stream's moves that even out load: proposals, their end, and what a move leaves in the state. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from braid.kernel.limits.registry.balancing import BALANCE_MOVES_OF_STREAM
from services.registry.model.channels import ChannelState
from services.registry.model.rebalances import MadeRebalance, RebalanceProposal
from services.registry.model.stream_commands import MoveTraffic, ProposeRebalance, WithdrawRebalance
from services.registry.model.stream_events import (
    RebalanceProposed,
    RebalanceWithdrawn,
    StreamEvent,
    StreamRebalanced,
)
from services.registry.model.streams import Stream

RebalanceEvent = RebalanceProposed | RebalanceWithdrawn | StreamRebalanced


def decide_proposal(state: Stream, command: ProposeRebalance | WithdrawRebalance) -> Sequence[StreamEvent]:
    """The events of a proposal or its end; none if it is recorded already."""
    known = state.rebalance
    if isinstance(command, WithdrawRebalance):
        return [RebalanceWithdrawn(command.reason, state.spec)] if known is not None else []
    if known is not None and (known.from_cluster, known.to_cluster) == (command.from_cluster, command.to_cluster):
        return []
    return [RebalanceProposed(command.from_cluster, command.to_cluster, command.reason, state.spec)]


def rebalanced(state: Stream, command: MoveTraffic) -> Sequence[StreamEvent]:
    """Returns the event that a move records beside itself when it evens out load."""
    made = command.rebalance
    if made is None:
        return []
    return [StreamRebalanced(made.from_cluster, made.to_cluster, made.kept_bytes, made.reason, state.spec)]


def evolve_rebalance(state: Stream, event: RebalanceEvent, now_ms: int) -> Stream:
    """The state after an event about load."""
    match event:
        case RebalanceProposed():
            proposal = RebalanceProposal(event.from_cluster, event.to_cluster, event.reason, now_ms)
            return replace(state, rebalance=proposal)
        case RebalanceWithdrawn():
            return replace(state, rebalance=None)
        case StreamRebalanced():
            made = (*state.rebalances, MadeRebalance(now_ms, event.kept_bytes))
            return replace(state, rebalance=None, rebalances=made[-BALANCE_MOVES_OF_STREAM:])


def without_done_proposal(state: Stream) -> Stream:
    """The state without a proposal whose stream has left the cluster, by whatever move."""
    proposal = state.rebalance
    if proposal is None:
        return state
    there = [each for each in state.channels if each.state is ChannelState.ACTIVE]
    stays = any(each.cluster == proposal.from_cluster for each in there)
    return state if stays else replace(state, rebalance=None)
