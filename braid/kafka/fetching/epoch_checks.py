"""Compares what a fetcher knows of logs with the logs themselves when a later leader shows (KIP-320).

A log loses its end only when another leader takes it over, and a new leader's epoch begins where its log ended. So one
request (OffsetForLeaderEpoch) tells whether anything that was fetched, or is known to be done, lies beyond that.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping

from braid.kafka.fetching.fetch_state import Assigned
from braid.kafka.fetching.leaders import BACKOFF_SECONDS, Leaders
from braid.kafka.protocol.epochs import EpochEndsRequest
from braid.kafka.protocol.wire import Wire
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import TopicPartition


class EpochChecks:
    """The checks of one fetcher. A partition hands out nothing while its check is due."""

    def __init__(self, wire: Wire, leaders: Leaders, checked: Callable[[], None]) -> None:
        """`wire` has connections on which no fetch is held; `checked` is called after each answer."""
        self._wire = wire
        self._leaders = leaders
        self._checked = checked
        self.tasks: set[asyncio.Task[None]] = set()

    def begin(self, assigned: Mapping[TopicPartition, Assigned], now: float) -> None:
        """Begins all checks that are due: one request to each broker that leads some of the logs."""
        by_leader: dict[int, dict[TopicPartition, Assigned]] = defaultdict(dict)
        for partition, state in assigned.items():
            idle = not state.looking and state.failure is None and now >= state.not_before
            if state.unchecked and idle and (leader := self._leaders.of(partition)) >= 0:
                by_leader[leader][partition] = state
        for leader, states in by_leader.items():
            for state in states.values():
                state.looking = True
            task = asyncio.create_task(self._check(leader, states), name="kafka-epoch-check")
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _check(self, leader: int, states: Mapping[TopicPartition, Assigned]) -> None:
        seen = {partition: state.seen_epoch for partition, state in states.items()}
        asked = {at: (self._leaders.epoch_of(at), state.leader_epoch) for at, state in states.items()}
        now = asyncio.get_running_loop().time
        try:
            answer = await self._wire.ask(leader, EpochEndsRequest(asked))
            for topic, told in answer.topics:
                for code, number, _, end in told:
                    partition = TopicPartition(topic, number)
                    if code:  # most often another leader by now: who leads is asked anew
                        self._leaders.forget([partition], ask=True)
                        states[partition].not_before = now() + BACKOFF_SECONDS
                    else:
                        compare(partition, states[partition], end, seen[partition])
        except ClusterUnavailable:
            self._leaders.forget(states, ask=True)
            for state in states.values():
                state.not_before = now() + BACKOFF_SECONDS
        finally:
            for state in states.values():
                state.looking = False
            self._checked()


def compare(partition: TopicPartition, state: Assigned, end: int, seen_epoch: int) -> None:
    """Compares a log with where leaders later than the known ones began to write.

    Args:
        partition: The log's.
        state: What is known of it.
        end: Where they began; -1 when the log's leader does not know, which shows no cut.
        seen_epoch: The newest leader epoch that had shown when the question was asked.
    """
    if 0 <= end < max(state.position, state.known_end):
        state.fail(partition, "lies in a log that was cut below it and has new records since")
    else:
        state.checked_epoch = seen_epoch
