"""Handlers of the replay RPCs. They check requests against the mesh; the domain decides; histories answer."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.api.dlq.v1 import replay_pb2
from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.access.roles import Resource, ResourceKind
from braid.kernel.errors import Exhausted, Invalid, NotFound, Unavailable
from braid.kernel.filters.grammar import Filter
from braid.kernel.ids import check_name
from braid.kernel.limits.dlq import DLQ_EXAMPLES, REPLAY_RATE_MAX, REPLAYS_OPEN_MAX
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller
from braid.runtime.access.approvals import Destruction
from braid.runtime.replica import Replica
from services.dlq.codec.events import REPLAYS, decode_spec
from services.dlq.codec.letters import preview_message, replay_message
from services.dlq.domain.policy import destination_of
from services.dlq.domain.replay import Replay, created_spec
from services.dlq.index.letter_index import LetterIndex
from services.dlq.index.selection import select_page
from services.dlq.index.tail import Tail
from services.dlq.model.events import (
    CancelReplay,
    Command,
    CreateReplay,
    PauseReplay,
    Position,
    ReplaySpec,
    ResumeReplay,
)
from services.dlq.model.filter import parse_filter
from services.dlq.model.letters import Letter
from services.dlq.peers import Streams
from services.dlq.servicer.letter_states import LetterStates


class _Match(NamedTuple):
    """The letters that a job would cover."""

    matched: int
    through: list[Position]
    examples: list[Letter]


class Replays:
    """Handlers of the RPCs about replays."""

    def __init__(
        self,
        replica: Replica,
        index: LetterIndex,
        tail: Tail,
        streams: Streams,
        states: LetterStates,
        waits_for: Callable[[str], str],
    ) -> None:
        """Creates the handlers; `waits_for` says why a job that runs here makes no progress."""
        self._replica = replica
        self._index = index
        self._tail = tail
        self._streams = streams
        self._states = states
        self._waits_for = waits_for
        self._creating = asyncio.Lock()

    async def create_replay(self, request: api.CreateReplayRequest, caller: Caller) -> api.CreateReplayResponse:
        """Creates a job, or with a dry run only counts its letters. A repeated request returns the job it created.

        Raises:
            NotFound: the stream or lane does not exist.
            Invalid: the field that is wrong is named.
            Exhausted: too many jobs are unfinished.
            Unavailable: readable letters of the stream are not indexed yet; the job would miss them.
        """
        self._replica.require_leader()
        async with self._creating:
            made = None if request.dry_run else self._made_by(caller)
            if made is not None:
                return api.CreateReplayResponse(replay=self._message(made))
            spec = decode_spec(request.spec)
            filter = await self._check(spec)
            self._require_indexed(spec.stream)
            match = await self._match(spec, filter)
            others = list(self._replica.aggregates.states(REPLAYS).values())
            examples = await self._states.messages(match.examples)
            if request.dry_run:
                return api.CreateReplayResponse(replay=preview_message(spec, match.matched), examples=examples)
            if sum(not each.ended for each in others) >= REPLAYS_OPEN_MAX:
                raise Exhausted(f"{REPLAYS_OPEN_MAX} replays are not over", remedy="wait for one, or cancel one")
            await self._require_approval(request, spec, match.matched, caller)
            command = CreateReplay(spec, match.matched, match.through)
            made = await self._execute(self._replica.host.ids.ulid(), command, caller)
        return api.CreateReplayResponse(replay=self._message(made), examples=examples)

    async def _require_approval(
        self, request: api.CreateReplayRequest, spec: ReplaySpec, letters: int, caller: Caller
    ) -> None:
        if not self._replica.approvals.state.policies:
            self._replica.approvals.require_known()
            return
        identity = str(await self._streams.create_time_ms(spec.stream, "spec.stream"))
        resources = (Resource(ResourceKind.STREAM, spec.stream),)
        destruction = Destruction((GuardedVerb.REPLAY,), resources, identity, letters)
        await self._replica.approvals.require("CreateReplay", request, destruction, caller)

    async def get_replay(self, request: api.GetReplayRequest, caller: Caller) -> replay_pb2.Replay:
        """Returns one job. Raises `NotFound`."""
        return self._message(self._replay(request.id))

    async def list_replays(self, request: api.ListReplaysRequest, caller: Caller) -> api.ListReplaysResponse:
        """Lists jobs, newest first. Raises `Invalid`."""
        if request.page_size < 0:
            raise Invalid(
                f"a page cannot have {request.page_size} items", field="page_size", remedy="use 0 for the default"
            )
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        found = [
            state
            for id, state in reversed(list(self._replica.aggregates.states(REPLAYS).items()))
            if state.spec is not None and request.stream in ("", state.spec.stream)
            if not request.page_token or id < request.page_token
        ]
        page = found[:size]
        return api.ListReplaysResponse(
            replays=map(self._message, page), next_page_token=page[-1].id if len(found) > size else ""
        )

    async def pause_replay(self, request: api.PauseReplayRequest, caller: Caller) -> replay_pb2.Replay:
        """Pauses a job before its next batch. Raises `NotFound`; `Refused` if the job has ended."""
        return await self._order(request.id, PauseReplay(), caller)

    async def resume_replay(self, request: api.ResumeReplayRequest, caller: Caller) -> replay_pb2.Replay:
        """Resumes a paused job. Raises `NotFound`; `Refused` if the job has ended."""
        return await self._order(request.id, ResumeReplay(), caller)

    async def cancel_replay(self, request: api.CancelReplayRequest, caller: Caller) -> replay_pb2.Replay:
        """Ends a job before its next batch. Raises `NotFound`; `Refused` if the job has ended."""
        return await self._order(request.id, CancelReplay(), caller)

    # --- creating

    def _made_by(self, caller: Caller) -> Replay | None:
        """The job that a request created. Jobs have their own ids, so a history alone cannot recognise a repeated
        request."""
        if not caller.request_id:
            return None
        asked = (caller.tenant, caller.request_id)
        states = self._replica.aggregates.states(REPLAYS).values()
        return next((each for each in states if (each.tenant, each.request_id) == asked), None)

    async def _check(self, spec: ReplaySpec) -> Filter:
        check_name(spec.stream, "spec.stream")
        filter = parse_filter(spec.filter, "spec.filter")
        if not 0 <= spec.rate_per_s <= REPLAY_RATE_MAX:
            raise Invalid(
                f"{spec.rate_per_s:g} records a second is not 0 to {REPLAY_RATE_MAX:g}",
                field="spec.rate_per_s",
                remedy="use 0 for no cap",
            )
        destination = destination_of(spec)
        if spec.broadcast and spec.destination:
            raise Invalid(
                "every group reads what is sent elsewhere anyway",
                field="spec.broadcast",
                remedy="leave out broadcast or destination",
            )
        await self._streams.lanes(spec.stream, "spec.stream")
        lanes = await self._streams.lanes(destination.stream, "spec.destination")
        if destination.lane and destination.lane not in lanes:
            known = ", ".join(sorted(lanes))
            raise NotFound(
                f"stream {destination.stream} has no lane {destination.lane!r}",
                field="spec.destination",
                remedy=f"it has {known}",
            )
        return filter

    def _require_indexed(self, stream: str) -> None:
        behind = self._tail.indexing(stream) if self._tail.heard else ["every cluster"]
        if behind:
            why = f": {self._tail.halted}" if self._tail.halted else ""
            raise Unavailable(
                f"dead letters of {stream} on {', '.join(behind)} are still being indexed{why}",
                remedy="try again once they are: braid get deadletters",
            )

    async def _match(self, spec: ReplaySpec, filter: Filter) -> _Match:
        run = self._replica.host.tasks.run_blocking
        through = list(await run(partial(self._index.positions, spec.stream)))
        newest: list[Letter] = []
        matched, cursor = 0, None
        while True:
            page = await run(partial(select_page, self._index, spec.stream, cursor, filter, through))
            matched += len(page.letters)
            newest = sorted([*newest, *page.letters], key=lambda each: (each.time_ms, each.place), reverse=True)
            newest = newest[:DLQ_EXAMPLES]
            if page.cursor is None:
                return _Match(matched, through, newest)
            cursor = page.cursor

    # --- the histories

    def _replay(self, id: str) -> Replay:
        state = self._replica.aggregates.state(REPLAYS, id)
        created_spec(state)
        return state

    def _message(self, state: Replay) -> replay_pb2.Replay:
        etag = str(self._replica.aggregates.sequence(REPLAYS, state.id))
        return replay_message(state, etag, self._waits_for(state.id))

    async def _order(self, id: str, command: Command, caller: Caller) -> replay_pb2.Replay:
        self._replica.require_leader()
        self._replay(id)
        return self._message(await self._execute(id, command, caller))

    async def _execute(self, id: str, command: Command, caller: Caller) -> Replay:
        outcome = await self._replica.aggregates.execute(
            REPLAYS,
            id,
            command,
            actor=caller.principal or caller.peer,
            tenant=caller.tenant,
            request_id=caller.request_id,
        )
        return outcome.state
