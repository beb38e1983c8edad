"""Events and states as bytes: round trips, golden files of every released event, and what must not decode."""

import base64
import json
from pathlib import Path
from typing import get_args

import pytest

from braid.api.dlq.v1 import events_pb2 as pb
from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.kernel.ids import make_epoch
from services.dlq.codec.events import ReplayCodec
from services.dlq.domain.replay import Replay, State
from services.dlq.model import events as ev
from services.dlq.model.letters import Cursor

GOLDEN = Path("tests/golden/events/dlq")
CODEC = ReplayCodec()
CONTEXT = Context(1_770_000_000_123, "dlq-0", "default", "r-1", "resumed", make_epoch(1, 5))
SPEC = ev.ReplaySpec("logs", "error=ValueError and not lane=bulk", "logs/bulk", 500.5, False)

# One of each; what they were at their release is in the golden files.
EXAMPLES: dict[str, ev.Event] = {
    "replay_created": ev.ReplayCreated(SPEC, 12, (ev.Position(1, 0, 40), ev.Position(2, 3, 7))),
    "batch_begun": ev.BatchBegun(Cursor(1, 0, 39), 10),
    "replay_advanced": ev.ReplayAdvanced(Cursor(1, 0, 39), 8, 3, (ev.Skips("its copy is gone from the log", 2),)),
    "replay_paused": ev.ReplayPaused(),
    "replay_resumed": ev.ReplayResumed(),
    "replay_cancelled": ev.ReplayCancelled(),
    "replay_finished": ev.ReplayFinished(),
    "replay_failed": ev.ReplayFailed("there is no stream 'logs'"),
}
STATE = Replay(
    "J1", SPEC, State.PAUSED, "r", 12, (ev.Position(1, 0, 40),), Cursor(1, 0, 9), ev.BatchBegun(Cursor(1, 0, 19), 10),
    True, 9, 1, (ev.Skips("x", 1),), 1, 2, 3, "default", "r-1",
)  # fmt: skip


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    fields = {field.name for field in pb.DlqEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(ev.Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = CODEC.decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_events_survive_the_round_trip(name: str) -> None:
    data = CODEC.encode(EXAMPLES[name], CONTEXT)
    assert CODEC.decode(data) == (EXAMPLES[name], CONTEXT)
    assert CODEC.encode(EXAMPLES[name], CONTEXT) == data
    assert pb.DlqEvent.FromString(data).WhichOneof("event") == name


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff",
        b"",
        pb.DlqEvent(metadata=EventMetadata(time_ms=1)).SerializeToString(),
        b"\xfa\x3f\x00",  # a field no release has
    ],
)
def test_what_is_no_known_event_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode(data)


@pytest.mark.parametrize("state", [Replay("J1"), STATE])
def test_states_round_trip_and_equal_states_give_equal_bytes(state: Replay) -> None:
    data = CODEC.encode_state(state)
    assert CODEC.decode_state(data) == state
    assert CODEC.encode_state(CODEC.decode_state(data)) == data


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1,"id":"J1"}'])
def test_what_is_no_state_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode_state(data)
