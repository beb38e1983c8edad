"""The history of outlets: what each command records, the bounds, and events and states as bytes."""

import base64
import json
from pathlib import Path
from typing import get_args

import pytest

from braid.api.lagmon.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.kernel.ids import make_epoch
from braid.kernel.limits.lagmon.alert_outlets import NOTIFICATIONS_KEPT_MAX, OUTLETS_MAX
from services.lagmon.alerts.outlets.codec import OUTLETS, OutletsCodec
from services.lagmon.alerts.outlets.decisions.domain import Outlets, OutletsDecider
from services.lagmon.alerts.outlets.decisions.events import (
    BeginNotification,
    Command,
    EndNotification,
    Event,
    NoteTrouble,
    NotificationBegun,
    NotificationEnded,
    OpenOutlet,
    OutletFailed,
    OutletOpened,
    OutletRecovered,
)
from services.lagmon.alerts.outlets.decisions.model import Firing, NotificationOutcome, NotificationType, Told

GOLDEN = Path("tests/golden/events/outlets")
NOW = 1_770_000_000_123
CONTEXT = Context(NOW, "lagmon-0", "default", "", "", make_epoch(1, 5))
ALERT = "stream/logs/lag-page/live/indexer"
FIRED, SILENCED, RESOLVED = NotificationType
SENT, GIVEN_UP, SKIPPED = NotificationOutcome
DAY_MS = 86_400_000

# One of each; what they were at their release is in the golden files.
EXAMPLES: dict[str, Event] = {
    "outlet_opened": OutletOpened("pager"),
    "outlet_failed": OutletFailed("pager", "it answered 500"),
    "outlet_recovered": OutletRecovered("pager"),
    "notification_begun": NotificationBegun("pager", ALERT, NOW - 5, FIRED),
    "notification_ended": NotificationEnded("pager", ALERT, NOW - 5, RESOLVED, SENT),
}


def played(*commands: Command, state: Outlets | None = None, now_ms: int = NOW) -> tuple[Outlets, list[Event]]:
    """The state and the events after some commands."""
    decider, context = OutletsDecider(), Context(now_ms, "lagmon-0")
    state, told = state or decider.initial("mesh"), []
    for command in commands:
        for event in decider.decide(state, command, context):
            state = decider.evolve(state, event, context)
            told.append(event)
    return state, told


def begin(type: NotificationType = FIRED, fired_ms: int = NOW) -> BeginNotification:
    return BeginNotification("pager", ALERT, fired_ms, type)


def end(type: NotificationType = FIRED, outcome: NotificationOutcome = SENT, fired_ms: int = NOW) -> EndNotification:
    return EndNotification("pager", ALERT, fired_ms, type, outcome)


def test_a_notification_begins_and_ends_once() -> None:
    state, told = played(OpenOutlet("pager"), OpenOutlet("pager"), begin(), begin(), end(), end())
    assert told == [
        OutletOpened("pager"),
        NotificationBegun("pager", ALERT, NOW, FIRED),
        NotificationEnded("pager", ALERT, NOW, FIRED, SENT),
    ]
    assert state.known["pager"].told == {Firing(ALERT, NOW): Told(FIRED, None, 1, NOW)}


def test_another_one_does_not_begin_before_the_first_has_ended() -> None:
    state, _ = played(OpenOutlet("pager"), begin())
    assert played(begin(RESOLVED), end(RESOLVED), state=state)[1] == []
    assert played(end(outcome=GIVEN_UP), begin(RESOLVED), state=state)[1] == [
        NotificationEnded("pager", ALERT, NOW, FIRED, GIVEN_UP),
        NotificationBegun("pager", ALERT, NOW, RESOLVED),
    ]


def test_only_what_was_never_begun_is_skipped() -> None:
    state, told = played(OpenOutlet("pager"), end(outcome=SKIPPED), end(outcome=SKIPPED))
    assert told[1:] == [NotificationEnded("pager", ALERT, NOW, FIRED, SKIPPED)]
    assert state.known["pager"].told[Firing(ALERT, NOW)].last is RESOLVED  # nothing follows
    assert played(OpenOutlet("pager"), begin(), end(outcome=SKIPPED))[1][2:] == []


def test_trouble_is_recorded_when_it_comes_and_goes() -> None:
    trouble = NoteTrouble("pager", "x" * 300)
    state, told = played(OpenOutlet("pager"), NoteTrouble("pager", ""), trouble, trouble)
    assert told[1:] == [OutletFailed("pager", "x" * 200)]
    assert state.known["pager"].trouble_ms == NOW
    state, told = played(NoteTrouble("pager", ""), NoteTrouble("pager", ""), state=state)
    assert (told, state.known["pager"].trouble) == ([OutletRecovered("pager")], "")


def test_nothing_is_recorded_of_an_outlet_that_was_not_opened() -> None:
    assert played(begin(), end(), NoteTrouble("pager", "x"))[1] == []


def test_outlets_are_bounded_and_the_first_is_forgotten() -> None:
    state = Outlets()
    for number in range(OUTLETS_MAX + 2):
        state, _ = played(OpenOutlet(f"o{number}"), state=state, now_ms=NOW + number)
    assert set(state.known) == {f"o{number}" for number in range(2, OUTLETS_MAX + 2)}


def test_what_ended_long_ago_is_forgotten() -> None:
    state, _ = played(OpenOutlet("pager"), begin(), end(), begin(RESOLVED), end(RESOLVED), begin(fired_ms=NOW + 1))
    later, _ = played(end(fired_ms=NOW + 1), state=state, now_ms=NOW + DAY_MS)
    assert set(later.known["pager"].told) == {Firing(ALERT, NOW + 1)}


def test_what_is_remembered_is_bounded_and_the_ended_goes_first() -> None:
    state, _ = played(OpenOutlet("pager"), begin(fired_ms=1), begin(fired_ms=2), end(fired_ms=2))
    known = {Firing(ALERT, 10 + n): Told(RESOLVED, None, 2, NOW - n) for n in range(NOTIFICATIONS_KEPT_MAX)}
    full = Outlets({"pager": type(state.known["pager"])(NOW, told={**state.known["pager"].told, **known})})
    after, _ = played(begin(fired_ms=3), state=full)
    told = after.known["pager"].told
    assert len(told) == NOTIFICATIONS_KEPT_MAX
    assert {Firing(ALERT, number) for number in (1, 2, 3)} <= set(told)


# --- bytes


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    known = pb.LagmonEvent.DESCRIPTOR.oneofs_by_name["event"].fields
    fields = {field.name for field in known if field.number >= 20}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = OutletsCodec().decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]
    assert OutletsCodec().encode(event, context) == base64.b64decode(golden["data"])


def test_states_survive_the_round_trip() -> None:
    state, _ = played(
        OpenOutlet("pager"), begin(), end(), begin(SILENCED), begin(fired_ms=NOW + 1), NoteTrouble("pager", "x")
    )
    data = OUTLETS.codec.encode_state(state)
    assert OUTLETS.codec.decode_state(data) == state
    assert OUTLETS.codec.encode_state(OUTLETS.codec.decode_state(data)) == data


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1,"outlets":{"a":{}}}'])
def test_what_is_no_state_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        OUTLETS.codec.decode_state(data)
