"""Looks up what the leases of a consumer do now and what blocks them; `explanations` puts it into words."""

from braid.client.consuming.consumer_context import ConsumerContext
from braid.client.consuming.explanations import Explained, Sight, behind_waits, explained, out_of_turn, sight, silent
from braid.client.consuming.leases import LeaseWorks
from braid.client.delivery.lane_states import LaneStates
from braid.client.delivery.lease_work import LeaseWork
from braid.client.handling.consumer_runners import Runners


class Explainer:
    """Explains the present state of one consumer's leases."""

    def __init__(self, works: LeaseWorks, context: ConsumerContext, states: LaneStates, runners: Runners) -> None:
        self._works = works
        self._context = context
        self._states = states
        self._runners = runners

    def explain(self, *, by_key: bool) -> list[Explained]:
        """Explains each lease; `by_key` means that records wait only for earlier ones of their key."""
        self._works.note_acked()
        now_ms, retries = self._context.host.clock.now_ms(), self._context.retries
        seen = sight(self._works, retries.works(), self._works.contacts(), self._runners.slots())
        return [
            explained(
                work,
                seen,
                now_ms,
                self._blocked(work, seen, by_key=by_key),
                self._runners.overdue(work.lease.id),
                self._context.ready.ahead(work.cursors),
            )
            for work in self._works
        ]

    def _blocked(self, work: LeaseWork, seen: Sight, *, by_key: bool) -> list[str]:
        channel, cluster = work.lease.id.channel, self._works.clusters[work.lease.cluster.name]
        lane, stream, committer = channel.lane, channel.stream, cluster.committer
        unread, state, short = cluster.unread(work), self._states.of(lane), self._context.retries.short_of_budget(lane)
        late = committer.unreachable and work.dirty and work.committed_at > 0
        unwritten = self._context.dead_letters.trouble(stream) if work.copying else ""
        reasons = {
            f"its committed progress is being read, {unread}": bool(unread),
            f"lane {lane} is stopped: {state.stopped}": bool(state.stopped),
            f"lane {lane} is paused": state.paused,
            f"{short:,} records of lane {lane} wait for the retry budget": short > 0,
            f"{state.fetching_paused}: fetching pauses": bool(state.fetching_paused),
            f"the memory of lane {lane} is full: fetching pauses": work.memory.held_back and not state.fetching_paused,
            f"dead letters of stream {stream} cannot be written: {unwritten}": bool(unwritten),
            f"no commit was answered lately by cluster {work.lease.cluster.name}": late,
            "too much is not committed: fetching pauses": committer.stopped,
            "no assigner is in reach": self._works.detached(),
        }
        waits = [*silent(work, seen), *out_of_turn(work, seen, by_key=by_key), *behind_waits(work, seen)]
        return [*(reason for reason, holds in reasons.items() if holds), *waits]
