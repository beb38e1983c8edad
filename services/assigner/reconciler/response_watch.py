"""Looks at groups that answer lag by themselves while this replica leads, and asks for the responses that follow.

A look that does not learn a group's lag changes nothing. What was seen so far is then forgotten, so a response always
follows from looks in a row.
"""

from collections.abc import Callable, Sequence

from braid.kernel.limits.assigner.responses import RESPONSE_LOOK_SECONDS
from braid.runtime.replica import Replica
from services.assigner.domain.responses import lanes_of, own_shares
from services.assigner.liveness.member_streams import MemberStream
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import TakeResponse, UndoResponse
from services.assigner.model.lag.responses import ResponseKind, ResponseMode
from services.assigner.peers import LagPeers
from services.assigner.policy.responses.answering import ResponseMemory, Take
from services.assigner.policy.responses.facts import ResponseFacts
from services.assigner.policy.responses.group_facts import response_facts
from services.assigner.policy.responses.kinds import KINDS
from services.assigner.reconciler.gauges import GroupGauges
from services.assigner.reconciler.group_looks import GroupLooks
from services.assigner.reconciler.group_loop import GROUPS, GroupKeeper


class ResponseWatch:
    """A term's looks at groups with response policies, one group after another."""

    def __init__(
        self,
        replica: Replica,
        peers: LagPeers,
        gauges: GroupGauges,
        keeper: Callable[[str], GroupKeeper],
        streams: Callable[[str], Sequence[MemberStream]],
    ) -> None:
        """`streams` returns the open streams of a group's members."""
        self._replica = replica
        self._clock = replica.host.clock
        self._peers = peers
        self._gauges = gauges
        self._keeper = keeper
        self._streams = streams
        self._looks: GroupLooks[ResponseMemory] = GroupLooks(
            replica, peers, RESPONSE_LOOK_SECONDS, "responses to lag", _answers, self._look_at
        )

    def follow(self, state: Group) -> None:
        """Takes a group as it is now."""
        self._looks.follow(state)

    def look(self) -> None:
        """Starts a round of looks when one is due and the last has ended."""
        self._looks.look()

    def stop(self) -> None:
        """Ends a round that is under way."""
        self._looks.stop()

    async def _look_at(self, name: str) -> None:
        found = await self._facts(name)
        state = self._state(name)  # as it is after the answers
        if not _answers(state):
            return
        now = self._clock.elapsed()
        memory = self._looks.memories.setdefault(name, ResponseMemory(KINDS, now))
        change = memory.look(state.responses, found, now)
        if isinstance(change, Take):
            self._keeper(name).answer(TakeResponse(*change, state.responses))
        elif change is not None:
            self._keeper(name).answer(UndoResponse(*change, state.responses))

    async def _facts(self, name: str) -> ResponseFacts | None:
        """Returns what is known of a group; None where its lag or its targets are not."""
        state = self._state(name)
        lanes = lanes_of(state)
        streams = state.spec.streams if state.spec is not None else ()
        targets = await self._peers.targets(name, dict.fromkeys(streams, lanes))
        rows = await self._peers.present(name, partitions=_needs_partitions(state)) if targets is not None else None
        if targets is None or rows is None:
            return None
        state = self._state(name)
        handlers = [stream.handlers for stream in self._streams(name)]
        keeper = self._keeper(name)
        members = keeper.compared_members()
        self._gauges.compare(name, members)
        return response_facts(state, own_shares(state), keeper.loads(), rows, targets, handlers, members)

    def _state(self, name: str) -> Group:
        return self._replica.aggregates.state(GROUPS, name)


def _answers(state: Group) -> bool:
    """Whether a group has anything that could be taken or undone."""
    wanted = any(each.mode is not ResponseMode.OFF for each in state.responses.policies)
    return state.spec is not None and (wanted or bool(state.responses.taken))


def _needs_partitions(state: Group) -> bool:
    return any(
        each.kind is ResponseKind.SPLIT_BACKLOG and each.mode is not ResponseMode.OFF
        for each in state.responses.policies
    )
