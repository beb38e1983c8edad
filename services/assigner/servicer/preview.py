"""Previews a changed group on the leader, because only the leader measures; changes nothing."""

from collections.abc import Callable

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.kernel.ports import Caller
from braid.kernel.timing.slices import in_turns
from braid.runtime.replica import Replica
from services.assigner.codec.rules import policy_message
from services.assigner.domain.decide import registered_spec
from services.assigner.domain.preview import Change, MemberLoad, PlacementMove, preview
from services.assigner.domain.shadow import Trial
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.term import Term
from services.assigner.servicer.operations import asked_policy


class Previews:
    """The handler of `PreviewPlacement` on the leader."""

    def __init__(self, replica: Replica, term: Callable[[], Term]) -> None:
        """`term` returns the present term, or raises `NotLeader`."""
        self._replica = replica
        self._term = term

    async def preview_placement(
        self, request: api.PreviewPlacementRequest, caller: Caller
    ) -> api.PreviewPlacementResponse:
        """Returns what would move. Raises `NotLeader`, `NotFound`, `Invalid`."""
        term = self._term()
        state = self._replica.aggregates.state(GROUPS, request.group)
        registered_spec(state)
        loads = term.keeper(request.group).loads()
        policy = asked_policy(request.policy) if request.HasField("policy") else None
        change = Change(tuple(request.leaving_members), tuple(request.lost_clusters), dict(request.capacities), policy)
        clock = self._replica.host.clock
        told = await in_turns(clock, preview(state, loads, change, clock.now_ms()))
        trial = term.keeper(request.group).trial
        members = sorted(
            (_member(state, each) for each in told.members), key=lambda each: (each.client_id, each.member)
        )
        return api.PreviewPlacementResponse(
            moves=[_move(each) for each in told.moves],
            members=members,
            measured=loads.settled,
            shadow=_comparison(trial) if trial else None,
        )


def _comparison(trial: Trial) -> api.ShadowComparison:
    return api.ShadowComparison(
        policy=policy_message(trial.shadow.policy),
        since_ms=trial.shadow.since_ms,
        looks=trial.looks,
        moves=trial.last.moves,
        max_over_mean_now=trial.last.now,
        max_over_mean_then=trial.last.then,
        average_now=trial.average_now,
        average_then=trial.average_then,
    )


def _move(move: PlacementMove) -> api.PlacementMove:
    return api.PlacementMove(lease=move.lease, from_member=move.source, to_member=move.target, cost=move.cost)


def _member(state: Group, load: MemberLoad) -> api.MemberLoad:
    now, then = load.leases
    relative_now, relative_then = load.relative
    return api.MemberLoad(
        member=load.member,
        client_id=state.members[load.member].client_id,
        capacity=load.capacity,
        leases_now=now,
        leases_then=then,
        relative_load_now=relative_now,
        relative_load_then=relative_then,
    )
