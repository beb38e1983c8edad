"""States of a replay ⇄ canonical JSON, for snapshots. Fields are only added: a newer release reads older snapshots."""

import json
from dataclasses import asdict
from typing import Any, Final

from braid.kernel.errors import CorruptHistory
from services.dlq.domain.replay import Replay, State
from services.dlq.model.events import BatchBegun, Position, ReplaySpec, Skips
from services.dlq.model.letters import Cursor

_FORMAT: Final = 1


def encode(state: Replay) -> bytes:
    """A state as bytes; equal states give equal bytes."""
    document = {**asdict(state), "format": _FORMAT, "state": state.state.value}
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes) -> Replay:
    """Reads `encode`'s bytes. Raises `CorruptHistory` for anything else."""
    try:
        document = json.loads(data)
        if document.pop("format") != _FORMAT:
            raise CorruptHistory("the snapshot's format is unknown", remedy="run a newer release")
        return _replay(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptHistory(f"no state of a replay: {error}") from error


def _replay(document: dict[str, Any]) -> Replay:
    spec, begun, cursor = document["spec"], document["open"], document["cursor"]
    parsed = {
        "spec": None if spec is None else ReplaySpec(**spec),
        "state": State(document["state"]),
        "open": None if begun is None else BatchBegun(Cursor(*begun["end"]), begun["letters"]),
        "cursor": None if cursor is None else Cursor(*cursor),
        "through": tuple(Position(*each) for each in document["through"]),
        "skipped": tuple(Skips(*each) for each in document["skipped"]),
    }
    return Replay(**{**document, **parsed})
