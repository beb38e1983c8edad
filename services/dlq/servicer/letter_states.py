"""Dead letters as messages with their state, from job histories and from proofs that sent letters were handled.

Whether letters were handled is determined per request, for the letters of one answer. A source that does not answer in
time proves nothing, and its letters stay listed as replayed.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from braid.api.dlq.v1 import dead_letter_pb2
from braid.kernel.errors import BraidError
from braid.kernel.limits.dlq import (
    DLQ_CAUGHT_UP_SECONDS,
    DLQ_INDEX_POLL_SECONDS,
    DLQ_PROOF_CALL_SECONDS,
    DLQ_PROOF_SECONDS,
    DLQ_RETENTION_KEPT_SECONDS,
)
from braid.runtime.replica import Replica
from services.dlq.codec.events import REPLAYS
from services.dlq.codec.letters import letter_message
from services.dlq.domain.handled import is_recent, proves_handled
from services.dlq.domain.policy import LetterState, sent_by, state_of
from services.dlq.index.sent_letters import SentLetters
from services.dlq.index.tail import Tail
from services.dlq.model.group_standing import GroupStanding
from services.dlq.model.letters import Letter, LetterPlace
from services.dlq.model.sent_letters import Sending, SentTarget, letter_mark
from services.dlq.peers import Groups, Streams
from services.dlq.reconciler.group_commits import GroupCommits, TargetFacts


class _Retention(NamedTuple):
    """A stream's retention, and until when this value may be used."""

    hours: int
    until: float


class LetterStates:
    """Determines the states of letters."""

    def __init__(
        self, replica: Replica, sent: SentLetters, tail: Tail, commits: GroupCommits, groups: Groups, streams: Streams
    ) -> None:
        self._replica = replica
        self._sent = sent
        self._tail = tail
        self._commits = commits
        self._groups = groups
        self._streams = streams
        self._retentions: dict[str, _Retention] = {}

    async def messages(self, letters: Sequence[Letter]) -> list[dead_letter_pb2.DeadLetter]:
        """Letters as messages without their content, in the same order."""
        replays = list(self._replica.aggregates.states(REPLAYS).values())
        states = {letter.place: state_of(letter, replays) for letter in letters}
        replayed = [letter for letter in letters if states[letter.place] is LetterState.REPLAYED]
        states |= dict.fromkeys(await self._handled(replayed), LetterState.HANDLED)
        return [letter_message(letter, sent_by(letter, replays), states[letter.place]) for letter in letters]

    async def _handled(self, replayed: Sequence[Letter]) -> Collection[LetterPlace]:
        if not replayed:
            return ()
        try:
            async with asyncio.timeout(DLQ_PROOF_SECONDS):
                return await self._proved(replayed)
        except TimeoutError:
            return ()

    async def _proved(self, replayed: Sequence[Letter]) -> Collection[LetterPlace]:
        """Letters proved to be handled. Each step drops some. Facts that must not be older than the commits are read
        after them."""
        run = self._replica.host.tasks.run_blocking
        letters = {letter.place: letter for letter in replayed}
        sendings = await run(partial(self._sent.find, list(letters)))
        sendings = {place: each for place, each in sendings.items() if each.letter.mark == letter_mark(letters[place])}
        sendings = await self._recent(sendings)
        facts = await self._commits.read({each.letter.target for each in sendings.values()})
        standings = await self._standings({target.group for target in facts})
        done = [place for place, each in sendings.items() if _is_done(each, facts, standings)]
        indexed = await self._indexed({place.stream for place in done})
        left = [letters[place] for place in done if place.stream in indexed]
        again = await run(partial(self._sent.dead_again, left))
        return [letter.place for letter in left if letter.place not in again]

    async def _recent(self, sendings: Mapping[LetterPlace, Sending]) -> Mapping[LetterPlace, Sending]:
        """Letters whose record would still be listed if it had failed again."""
        hours = {stream: await self._retention_hours(stream) for stream in sorted({each.stream for each in sendings})}
        now_ms = self._replica.host.clock.now_ms()
        return {place: each for place, each in sendings.items() if is_recent(each, hours[place.stream], now_ms)}

    async def _retention_hours(self, stream: str) -> int:
        """A stream's retention; 0 where the registry does not answer."""
        now = self._replica.host.clock.elapsed()
        self._retentions = {name: each for name, each in self._retentions.items() if now < each.until}
        if stream not in self._retentions:
            try:
                hours = await self._streams.retention_hours(stream, "stream", DLQ_PROOF_CALL_SECONDS)
            except BraidError:
                hours = 0
            self._retentions[stream] = _Retention(hours, now + DLQ_RETENTION_KEPT_SECONDS)
        return self._retentions[stream].hours

    async def _standings(self, groups: Collection[str]) -> Mapping[str, GroupStanding]:
        """The groups that are registered; empty if the assigner does not answer."""
        found: dict[str, GroupStanding] = {}
        for group in sorted(groups):
            try:
                standing = await self._groups.standing(group, DLQ_PROOF_CALL_SECONDS)
            except BraidError:
                return found
            if standing is not None:
                found[group] = standing
        return found

    async def _indexed(self, streams: Collection[str]) -> Collection[str]:
        """Streams whose dlq lanes are fully indexed now; waits briefly for the index."""
        ends = {stream: await self._commits.ends(stream) for stream in sorted(streams)}
        clock = self._replica.host.clock
        deadline = clock.elapsed() + DLQ_CAUGHT_UP_SECONDS
        known = {stream: positions for stream, positions in ends.items() if positions is not None}
        while True:
            reached = [stream for stream, positions in known.items() if self._tail.reached(stream, positions)]
            if len(reached) == len(known) or clock.elapsed() >= deadline:
                return reached
            await clock.sleep(DLQ_INDEX_POLL_SECONDS)


def _is_done(sending: Sending, facts: Mapping[SentTarget, TargetFacts], standings: Mapping[str, GroupStanding]) -> bool:
    target = sending.letter.target
    if target not in facts or target.group not in standings:
        return False
    return proves_handled(sending, *facts[target], standings[target.group])
