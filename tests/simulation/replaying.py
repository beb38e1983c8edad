"""Dead letters sent again during a run: the dlq service with an index that tells what it holds, and who asks it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.api.dlq.v1.replay_pb2 import Replay, ReplaySpec
from braid.kernel.errors import BraidError
from braid.kernel.ports import Host, Kafka
from braid.rpc.mesh_client import ServiceClient
from services.dlq.index.letter_index import DlqPartition, LetterIndex
from services.dlq.model.letters import Letter
from services.dlq.reconciler.member import GROUP as DLQ_GROUP
from services.dlq.servicer.service import Dlq
from testbed.checkers import facts
from testbed.checkers.letters import WholeReplays
from tests.simulation.applications import STREAM
from tests.simulation.journal import Journal

RATES: Final = (1.0, 4.0)  # letters a second, of one replay after the other: batches of one, and of two
_RETRY_SECONDS: Final = 0.5
_MESH: Final = "simulation"


class ObservedIndex(LetterIndex):
    """In memory, so that each life of its process begins with nothing; tells of each letter it holds."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(Path(":memory:"), _MESH)
        self._journal = journal

    def write(self, part: DlqPartition, letters: Sequence[Letter], next_offset: int, leader_epoch: int = -1) -> None:
        """See `LetterIndex`."""
        super().write(part, letters, next_offset, leader_epoch)
        for letter in letters:
            if self.get(letter.place) is not None:
                place = facts.Place(letter.cluster, letter.topic, part.partition, letter.place.offset)
                self._journal.note(facts.Indexed(DLQ_GROUP, place))


class ObservedDlq(Dlq):
    """The service over such an index."""

    def __init__(self, kafka: Kafka, journal: Journal) -> None:
        super().__init__(kafka, Path(":memory:"), _MESH)
        self.forget()
        self._index = ObservedIndex(journal)

    def forget(self) -> None:
        """Its process died, and the index with it."""
        self._index.close()


class Replaying:
    """Somebody who mends the handler once there are some dead letters, and replays all there are, again and again."""

    def __init__(self, host: Host, dlq: ServiceClient, journal: Journal, replays: WholeReplays, letters: int) -> None:
        """`replays` judges the run, and counts letters; the handler is mended once there are so many `letters`."""
        self._host = host
        self._dlq = dlq
        self._journal = journal
        self._replays = replays
        self._letters_min = letters
        self._through = False

    def left(self) -> list[str]:
        """Says what is still missing until all replays are over and their letters handled."""
        return [*([] if self._through else ["not every replay is over"]), *self._replays.finish()]

    async def run(self) -> None:
        """Until the last replay is over."""
        while self._replays.letters < self._letters_min:
            await self._host.clock.sleep(_RETRY_SECONDS)
        self._journal.mended = True
        for rate in RATES:
            while not await self._replay(rate):
                await self._host.clock.sleep(_RETRY_SECONDS)
        self._through = True

    async def _replay(self, rate: float) -> bool:
        """Asks for a replay of everything and waits for its end; False where some letters could not be read."""
        self._journal.note(facts.ReplayAsked())
        known, request_id = self._replays.letters, self._host.ids.ulid()
        replay = await self._ask(rate, request_id)
        self._journal.say(f"OPERATOR replays {replay.status.matched} letters, knows {known}: {replay.id}")
        if whole := replay.status.matched >= known:
            while not self._replays.over(replay.id):
                await self._host.clock.sleep(_RETRY_SECONDS)
        else:
            await self._cancel(replay.id)
        return whole

    async def _ask(self, rate: float, request_id: str) -> Replay:
        request = api.CreateReplayRequest(spec=ReplaySpec(stream=STREAM, rate_per_s=rate))
        while True:
            try:
                answer = await self._dlq.unary("CreateReplay", request, api.CreateReplayResponse, request_id=request_id)
            except BraidError as error:
                self._journal.say(f"OPERATOR asks for a replay again: {error}")
                await self._host.clock.sleep(_RETRY_SECONDS)
            else:
                return answer.replay

    async def _cancel(self, replay: str) -> None:
        while not self._replays.over(replay):
            try:
                await self._dlq.unary("CancelReplay", api.CancelReplayRequest(id=replay), Replay)
            except BraidError as error:
                self._journal.say(f"OPERATOR cancels again: {error}")
                await self._host.clock.sleep(_RETRY_SECONDS)
