"""Mutants of dead letters and of replays, each with a plan that shows it."""

from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from braid.client.handling import dead_letters
from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Headers
from braid.kernel.filters.grammar import Filter
from services.dlq.domain.replay import Replay
from services.dlq.index import selection
from services.dlq.index.letter_index import LetterIndex
from services.dlq.model.events import Advance, Command, Skips
from services.dlq.model.letters import Letter
from services.dlq.reconciler import replay
from tests.simulation.mutants import Mutant

REPLAYS: Final[dict[str, Any]] = {
    "fault_seconds": 45.0,
    "settle_seconds": 120.0,
    "send_interval_seconds": 0.15,
    "poison_percent": 8,
    "fault_interval_seconds": 1.5,
    "replays": True,
}
CUT_SHORT: Final[dict[str, Any]] = {
    **REPLAYS,
    "fault_seconds": 30.0,
    "settle_seconds": 90.0,
    "poison_percent": 50,
    "send_interval_seconds": 0.1,
    "letters": 80,
    "cluster_deaths_max": 6,
}
CUTS: Final = (*("shorten-logs",) * 6, "kill-dlq", "kill-member")
FAULTS: Final = (*("kill-dlq",) * 4, "pause-dlq", "kill-service", "lose-answers", "cut-store", "kill-member")

_send_copy: Final = dead_letters.send_copy


async def _send_headers_alone(
    producer: Producer, value: bytes | None, key: bytes | None, original: Headers, headers: Headers, now_ms: int
) -> None:
    await _send_copy(producer, None, key, original, headers, now_ms)


_next_batch: Final = selection.next_batch
_known: Final[WeakKeyDictionary[LetterIndex, set[str]]] = WeakKeyDictionary()


def _one_batch_further(index: LetterIndex, replay: Replay, filter: Filter, letters_max: int) -> Sequence[Letter]:
    """A defect: a new leader continues a replay one batch too far."""
    known = _known.setdefault(index, set())
    if replay.cursor is None or replay.id in known:
        known.add(replay.id)
        return _next_batch(index, replay, filter, letters_max)
    known.add(replay.id)
    return _next_batch(index, replay, filter, 2 * letters_max)[letters_max:]


_Run = replay.ReplayRun
_send: Final = _Run._send
_execute: Final = _Run._execute


async def _advance_first(self: _Run, producer: Producer, batch: Any) -> int:
    """The history says that a batch is sent before it is."""
    skips = [Skips(reason, letters) for reason, letters in sorted(batch.skipped.items())]
    await _execute(self, Advance(len(batch.ready), 0, skips))
    return await _send(self, producer, batch)


async def _execute_once(self: _Run, command: Command) -> None:
    if isinstance(command, Advance) and self._state().open is None:
        return
    await _execute(self, command)


def _by_place(self: Letter) -> tuple[object, ...]:
    """Takes the place of a record for its name, as if no log were ever cut."""
    return ()


LETTER_MUTANTS: Final = (
    Mutant(
        "a letter without its record",
        "I12 letters",
        [(dead_letters, "send_copy", _send_headers_alone)],
        changes={"poison_percent": 8},
    ),
    Mutant(
        "a letter that hides another of its offset",
        "I12 replays",
        [(Letter, "_record", property(_by_place))],
        CUTS,
        CUT_SHORT,
    ),
    Mutant(
        "a replay that forgets its place",
        "I12 replays",
        [(replay, "next_batch", _one_batch_further)],
        FAULTS,
        REPLAYS,
    ),
    Mutant(
        "a replay that moves on before it sends",
        "I12 replays",
        [(_Run, "_send", _advance_first), (_Run, "_execute", _execute_once)],
        FAULTS,
        REPLAYS,
    ),
)
