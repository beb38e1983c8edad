"""A run's past: answers kept as they are given and asked for again at its end, and what befalls archives meanwhile.

Histories are compacted every few events, so that most answers come from the archive.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

from braid.archive import names, segment
from braid.archive.memory import MemoryArchive
from braid.archive.names import SegmentName
from braid.kernel.errors import ArchiveDamaged, BraidError
from braid.kernel.ports import HistoryId
from braid.rpc.memory.transport import MemoryTransport
from braid.runtime.archive import shelf
from braid.runtime.histories import fold, past
from braid.runtime.replica import Replica
from testbed.checkers.past import INVARIANT, Answer, KeptAnswers
from tests.simulation.histories import KINDS
from tests.simulation.past_questions import questions
from tests.simulation.world import SERVICES, World

INTERVAL_EVENTS: Final = 8  # after so many events a snapshot is due; 512 in real life
SEGMENT_EVENTS: Final = 6  # no divisor of it: segments begin and end within intervals
STORY_EVENTS: Final = 10  # that an explanation is told from
PEERS_AGAIN_SECONDS: Final = 5.0  # until peers are asked again for what they lacked; 30 in real life
RECORD_SECONDS: Final = 0.7  # between two questions, on average
ANSWERS_MAX: Final = 60  # of a run that are asked for again at every replica: each costs CPU time
ARCHIVE_FAULTS: Final = ("fill-archive", "cut-archive", "lose-archive", "alter-archive")
SERVICES_ASKED: Final = ("registry", "assigner")
_PAGE: Final = 7  # events of a list, so that pages end within segments
_TRIES: Final = 3  # of a question at the end, when replicas are busy


@contextmanager
def short_histories() -> Iterator[None]:
    """While this is entered, histories are compacted and archives cut every few events; peers are soon asked again."""
    changes = (
        (fold, "SNAPSHOT_EVERY_EVENTS", INTERVAL_EVENTS),
        (segment, "ARCHIVE_SEGMENT_EVENTS", SEGMENT_EVENTS),
        (past, "ARCHIVE_SEGMENT_EVENTS", SEGMENT_EVENTS),
        (past, "PAST_STORY_EVENTS", STORY_EVENTS),
        (shelf, "ARCHIVE_PEERS_AGAIN_SECONDS", PEERS_AGAIN_SECONDS),
    )
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


class Historian:
    """Somebody who asks what is true, and at the end what was.

    Attributes:
        recorded: How many answers were kept.
        confirmed: How many were given again, alike, at the end; each replica counts.
    """

    def __init__(self, world: World, kept: KeptAnswers, dice: random.Random) -> None:
        self.recorded = 0
        self.confirmed = 0
        self._world = world
        self._kept = kept
        self._dice = dice
        self._transport = MemoryTransport(world.network, "historian")

    async def run(self) -> None:
        """Asks now and then, forever."""
        while True:
            await self._world.host.clock.sleep(self._dice.uniform(0.0, 2 * RECORD_SECONDS))
            service = self._dice.choice(SERVICES_ASKED)
            leader = self._world.leader(service)
            if leader and self._dice.random() < 0.5:
                self._record_state(leader)
            elif leader:
                await self._record_answer(service, leader)

    def _record_state(self, leader: str) -> None:
        """Keeps the state that the leader has in memory, which no history was read for."""
        aggregates = self._replica(leader).aggregates
        histories = aggregates.histories()
        if not histories:
            return
        history = self._dice.choice(histories)
        kind = KINDS[history.service, history.kind].erased()
        times_ms = self._kept.times_ms.get(history, [])
        if not times_ms or aggregates.sequence(kind, history.id) != len(times_ms):
            return  # an append is under way
        at_ms = times_ms[-1]

        async def ask(instance: str) -> object:
            found = await self._replica(instance).aggregates.past(kind, history.id, at_ms)
            return kind.codec.encode_state(found.state)

        told = kind.codec.encode_state(aggregates.state(kind, history.id))
        self._keep(Answer(history.service, f"the state of {history}", at_ms, ask, told))

    async def _record_answer(self, service: str, leader: str) -> None:
        """Keeps what a client is answered about the present, asked for as a moment."""
        at_ms = self._kept.newest_ms(service)
        if not at_ms:
            return
        question = self._dice.choice(questions(service, at_ms, self._world.plan.clusters))

        async def ask(instance: str) -> object:
            return await question.ask(self._transport, f"{instance}:1")

        answer = Answer(service, str(question), at_ms, ask)
        self._keep(answer)  # before it is asked: what is appended meanwhile counts
        try:
            answer.told = await ask(leader)
        except BraidError as error:
            self._world.journal.say(f"PAST {question} is not told: {error}")
            self._kept.forget(answer)

    def _keep(self, answer: Answer) -> None:
        self.recorded += 1
        self._kept.answers.append(answer)

    # --- at the end

    async def judge(self) -> None:
        """Everything is healed: every replica gives every answer again, and lists every event. Else the run fails."""
        await self._world.host.clock.sleep(PEERS_AGAIN_SECONDS + 1.0)  # peers that were away are asked again
        for history, events in sorted(self._kept.events.items()):
            for name in self._replicas(history.service):
                await self._list(name, history, list(events))
        answers = [each for each in self._kept.answers if each.told is not None]
        for answer in self._dice.sample(answers, min(ANSWERS_MAX, len(answers))):
            for name in self._replicas(answer.service):
                await self._ask_again(name, answer)
        counts = f"{self.confirmed} of {self.recorded} answers, {self._kept.dropped} dropped"
        self._world.journal.say(f"PAST is as it was: {counts}")

    async def _list(self, name: str, history: HistoryId, events: list[bytes]) -> None:
        """Reads a history in pages, and compares it to what was appended."""
        aggregates, kind = self._replica(name).aggregates, KINDS[history.service, history.kind]
        found: list[bytes] = []
        while len(found) < len(events):
            page = await aggregates.listed(history, len(found) + 1, _PAGE)
            found += [record.data for record in page.events]
            if page.gaps or not page.events:
                self._fail(f"{name} lists {history} with {page.gaps or 'an end'} after event {len(found)}")
                return
        wrong = next((at for at, (one, other) in enumerate(zip(events, found), 1) if one != other), 0)  # noqa: B905
        if wrong:
            event, _ = kind.erased().codec.decode(found[wrong - 1])
            self._fail(f"{name} lists event {wrong} of {history} as {event!r:.200}, which was never appended there")

    async def _ask_again(self, name: str, answer: Answer) -> None:
        for attempt in range(_TRIES):
            try:
                now = await answer.ask(name)
                break
            except BraidError as error:
                if attempt == _TRIES - 1 and answer in self._kept.answers:
                    self._fail(f"{name} does not tell {answer.subject} at {answer.at_ms} any more: {error}")
                    return
                await self._world.host.clock.sleep(1.0)
        if answer not in self._kept.answers:
            return
        if now != answer.told:
            self._fail(f"{answer.subject} at {answer.at_ms} was {answer.told!r}; {name} tells {now!r} now")
        self.confirmed += 1

    def _fail(self, message: str) -> None:
        self._world.journal.fail(INVARIANT, message)

    def _replicas(self, service: str) -> list[str]:
        return [name for name in self._world.alive(list(self._world.archives)) if name.startswith(service)]

    def _replica(self, instance: str) -> Replica:
        replica = self._world.running[instance].replica
        assert replica is not None, "services have replicas"
        return replica


class ArchiveBreaker:
    """Damages the archives of replicas. What one loses, the other replica of its service has."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice

    def victim(self) -> tuple[str, MemoryArchive]:
        """A replica, and its archive."""
        name = self._dice.choice(SERVICES)
        return name, self._world.archives[name]

    def lose(self) -> str:
        """A replica's archive is empty from now on, where the other has all of it; returns what happened."""
        name, archive = self.victim()
        if _events(archive) - self._others(name):
            return f"the archive of {name} is the only one with some events: it stays"
        archive.objects.clear()
        return f"the archive of {name} is lost"

    def alter(self) -> str:
        """One byte of an object changes, where the other replica has its events; returns what happened."""
        name, archive = self.victim()
        objects = sorted(archive.objects)
        if not objects:
            return f"the archive of {name} is empty"
        victim = self._dice.choice(objects)
        if _events(MemoryArchive({victim: archive.objects[victim]})) - self._others(name):
            return f"{victim} of {name} is the only copy: it stays"
        data = bytearray(archive.objects[victim])
        data[self._dice.randrange(len(data))] ^= 1 << self._dice.randrange(8)
        archive.objects[victim] = bytes(data)
        return f"a byte of {victim} of {name} changes"

    def _others(self, name: str) -> set[tuple[HistoryId, int, bytes]]:
        service = name.partition("-")[0]
        others = [other for other in SERVICES if other != name and other.startswith(service)]
        return {event for other in others for event in _events(self._world.archives[other])}


def _events(archive: MemoryArchive) -> set[tuple[HistoryId, int, bytes]]:
    """The archived events that can be read, with their links."""
    found: set[tuple[HistoryId, int, bytes]] = set()
    for text, data in archive.objects.items():
        name = names.parse(text)
        if isinstance(name, SegmentName):
            try:
                whole = segment.decode(data, name)
            except ArchiveDamaged:
                continue
            found |= {(name.history, sequence, link) for sequence, link in enumerate(whole.links, name.first)}
    return found
