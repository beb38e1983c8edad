"""Groups as they were at a moment, folded from the histories. Reads only; any replica answers alike."""

from dataclasses import dataclass

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import check_name
from braid.kernel.ports import Caller
from braid.kernel.timing.slices import Slices
from braid.runtime.histories.past_states import check_moment, states_page, whole_states_at
from braid.runtime.replica import Replica
from services.assigner.model.group import Group
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.servicer.reads import consumes, group_message, leases_page, member_messages


@dataclass(frozen=True, slots=True)
class PastReads:
    """The handlers of one replica that read the past."""

    replica: Replica

    async def describe(self, request: api.DescribePastRequest, caller: Caller) -> api.DescribePastResponse:
        """One group with its members and leases, or the groups that were subscribed to a stream.

        Raises:
            Invalid: no moment is named, or not one thing.
            NotFound: the group did not exist then.
            HistoryHole: events that decide the answer are not kept.
            ArchiveDamaged: one of them was changed or removed.
        """
        check_moment(request.at_ms, self.replica.host.clock.now_ms())
        if bool(request.group) == bool(request.stream):
            raise Invalid("a group or a stream's groups are described", field="group", remedy="name exactly one")
        if request.stream:
            return await self._of_stream(check_name(request.stream, "stream"), request.at_ms)
        group = await self._at(check_name(request.group, "group"), request.at_ms)
        if group.spec is None:
            remedy = f"ask when it did: braid events --for group/{request.group}"
            raise NotFound(f"there was no group {request.group} at that moment", field="group", remedy=remedy)
        slices = Slices(self.replica.host.clock)
        leases, token = await leases_page(group, request.page_size, request.page_token, slices)
        members = [] if request.page_token else member_messages(group)
        return api.DescribePastResponse(
            groups=[group_message(group)], members=members, leases=leases, next_page_token=token
        )

    async def list_groups(self, request: api.ListPastGroupsRequest, caller: Caller) -> api.ListPastGroupsResponse:
        """Lists the groups that existed at a moment, by name. Raises `Invalid`, `Unavailable`."""
        check_moment(request.at_ms, self.replica.host.clock.now_ms())
        aggregates = self.replica.aggregates
        found = await states_page(aggregates, GROUPS, request.at_ms, request.page_size, request.page_token)
        groups = [group_message(each) for each in found.states.values() if each.spec is not None]
        return api.ListPastGroupsResponse(groups=groups, gaps=found.gaps, next_page_token=found.next_page_token)

    async def _of_stream(self, stream: str, at_ms: int) -> api.DescribePastResponse:
        found = await whole_states_at(self.replica.aggregates, GROUPS, at_ms)
        groups = [group_message(each) for each in found.values() if consumes(each, stream, "")]
        return api.DescribePastResponse(groups=groups)

    async def _at(self, name: str, at_ms: int) -> Group:
        return (await self.replica.aggregates.past(GROUPS, name, at_ms)).state
