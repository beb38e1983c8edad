"""The context of request handlers: the world, the term, and executing or previewing a caller's command."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Invalid, NotFound, NotLeader, Unavailable
from braid.kernel.ids import check_name
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller
from braid.runtime.histories.kinds import Kind
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS, STREAMS, read_world
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.streams import Stream
from services.registry.policy.world import World
from services.registry.term import Term

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")
T = TypeVar("T")


class RequestContext:
    """A replica as request handlers see it."""

    def __init__(self, replica: Replica, term: Callable[[], Term]) -> None:
        """Wraps a replica. `term` returns the present term, or raises `NotLeader`."""
        self.replica = replica
        self.term = term

    def world(self) -> World:
        """The world as this replica knows it; the leader also knows clusters' loads."""
        replica = self.replica
        world = read_world(replica.aggregates, replica.host.clock.now_ms(), replica.waits)
        return replace(world, loads=self._loads())

    def _loads(self) -> Mapping[str, MeasuredLoad]:
        leading = self.leading()
        return leading.measurer.loads if leading is not None else {}

    def leading(self) -> Term | None:
        """The present term; None if this replica does not lead."""
        try:
            return self.term()
        except (NotLeader, Unavailable, CorruptHistory):
            return None

    def cluster(self, name: str) -> Cluster:
        """An existing cluster. Raises `Invalid`, `NotFound`."""
        found = self.replica.aggregates.state(CLUSTERS, check_name(name, "name"))
        if not found.exists:
            raise NotFound(f"there is no cluster {name}", field="name", remedy="list them: braid get clusters")
        return found

    def stream(self, name: str, field: str = "name") -> Stream:
        """An existing stream. Raises `Invalid`, `NotFound`."""
        found = self.replica.aggregates.state(STREAMS, check_name(name, field))
        if not found.exists:
            raise NotFound(f"there is no stream {name}", field=field, remedy="list them: braid get streams")
        return found

    async def execute(self, kind: Kind[S, C, E], id: str, command: C, caller: Caller, part: str = "") -> S:
        """Executes a caller's command; `part` distinguishes several commands of one request on one history."""
        request_id = f"{caller.request_id}{part}" if caller.request_id else ""
        outcome = await self.replica.aggregates.execute(
            kind, id, command, actor=_actor(caller), tenant=caller.tenant, request_id=request_id
        )
        return outcome.state

    def preview(self, kind: Kind[S, C, E], id: str, command: C, caller: Caller) -> S:
        """The state the command would lead to; nothing is recorded. Raises what the command would."""
        context = Context(self.replica.host.clock.now_ms(), _actor(caller), caller.tenant)
        state = self.replica.aggregates.state(kind, id)
        for event in kind.decider.decide(state, command, context):
            state = kind.decider.evolve(state, event, context)
        return state


def _actor(caller: Caller) -> str:
    return caller.principal or "anonymous"


def page_of(items: Sequence[tuple[str, T]], page_size: int, page_token: str) -> tuple[Sequence[T], str]:
    """One page of items sorted by key, and the token of the next page ('' for none): the last key of this one.

    Raises:
        Invalid: a negative page size.
    """
    if page_size < 0:
        raise Invalid("a page has at least one item", field="page_size")
    size = min(page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
    rest = [item for item in items if item[0] > page_token]
    page = rest[:size]
    return [value for _, value in page], page[-1][0] if len(rest) > size else ""
