"""The history of alerts: what each command records, the bounds, and events and states as bytes."""

import base64
import json
from pathlib import Path
from typing import get_args

import pytest

from braid.api.lagmon.v1 import events_pb2 as pb
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Exhausted, Invalid, NotFound
from braid.kernel.ids import make_epoch
from braid.kernel.limits.lagmon.alerts import ALERTS_OPEN_MAX, ALERTS_RESOLVED_MAX, SILENCES_MAX
from services.lagmon.alerts.codec import ALERTS, AlertsCodec
from services.lagmon.alerts.decisions.domain import EXPIRED, Alerts, AlertsDecider
from services.lagmon.alerts.decisions.events import (
    AlertFired,
    AlertResolved,
    AlertSilenced,
    Command,
    CreateSilence,
    DeleteSilence,
    Event,
    ExpireSilences,
    Firing,
    RecordChanges,
    SilenceEnded,
)
from services.lagmon.alerts.decisions.model import AlertKey, Severity

GOLDEN = Path("tests/golden/events/alerts")
NOW = 1_770_000_000_123
CONTEXT = Context(NOW, "ann", "default", "r-1", "", make_epoch(1, 5))
KEY = AlertKey("lag-page", "logs", "", "live", "indexer")
DOWN = AlertKey("cluster-down", "", "east")
DAY_MS = 86_400_000

# One of each; what they were at their release is in the golden files.
EXAMPLES: dict[str, Event] = {
    "alert_fired": AlertFired(KEY, Severity.PAGE, "group indexer is 12.5 s behind"),
    "alert_resolved": AlertResolved(KEY.name, "its condition does not hold any more"),
    "alert_silenced": AlertSilenced(KEY.name, "ticket 17", NOW + DAY_MS),
    "silence_ended": SilenceEnded(KEY.name, "expired"),
}


def played(*commands: Command, state: Alerts | None = None, now_ms: int = NOW) -> tuple[Alerts, list[Event]]:
    """The state and the events after some commands."""
    decider, context = AlertsDecider(), Context(now_ms, "ann")
    state, told = state or decider.initial("mesh"), []
    for command in commands:
        for event in decider.decide(state, command, context):
            state = decider.evolve(state, event, context)
            told.append(event)
    return state, told


def firing(key: AlertKey = KEY) -> Firing:
    """An alert to fire."""
    return Firing(key, Severity.PAGE, "why")


def test_an_alert_fires_once_however_often_it_is_recorded() -> None:
    command = RecordChanges([firing(), firing()])
    state, told = played(command, command)
    assert told == [AlertFired(KEY, Severity.PAGE, "why")]
    assert state.open[KEY.name].fired_ms == NOW


def test_an_alert_that_is_not_open_is_not_resolved() -> None:
    command = RecordChanges(resolved=[(KEY.name, "over")])
    assert played(command)[1] == []
    state, told = played(RecordChanges([firing()]), command, command)
    assert told[1:] == [AlertResolved(KEY.name, "over")]
    assert (state.open, state.resolved[0].resolved_ms) == ({}, NOW)


def test_pages_fire_before_tickets_where_room_is_short() -> None:
    tickets = [Firing(KEY._replace(group=f"t{n}"), Severity.TICKET, "") for n in range(ALERTS_OPEN_MAX)]
    state, told = played(RecordChanges([*tickets, firing(DOWN)]))
    assert len(state.open) == ALERTS_OPEN_MAX
    assert told[0] == AlertFired(DOWN, Severity.PAGE, "why")
    assert played(RecordChanges([firing()]), state=state)[1] == []


def test_resolved_alerts_are_kept_up_to_a_number_and_an_age() -> None:
    state = Alerts()
    for _ in range(ALERTS_RESOLVED_MAX + 5):
        state, _ = played(RecordChanges([firing()]), RecordChanges(resolved=[(KEY.name, "")]), state=state)
    assert len(state.resolved) == ALERTS_RESOLVED_MAX
    later = NOW + 31 * DAY_MS
    state, _ = played(RecordChanges([firing()]), RecordChanges(resolved=[(KEY.name, "")]), state=state, now_ms=later)
    assert len(state.resolved) == 1


def test_a_silence_has_a_reason_and_an_end() -> None:
    state, told = played(CreateSilence(KEY.name, 7_200_000, "ticket 17"))
    assert told == [AlertSilenced(KEY.name, "ticket 17", NOW + 7_200_000)]
    assert state.silences[KEY.name].created_by == "ann"


@pytest.mark.parametrize(
    ("alert", "lasting_ms", "reason", "field"),
    [
        (KEY.name, 0, "x", "lasting_ms"),
        (KEY.name, -1, "x", "lasting_ms"),
        (KEY.name, 59_999, "x", "lasting_ms"),
        (KEY.name, 30 * DAY_MS + 1, "x", "lasting_ms"),
        (KEY.name, DAY_MS, " ", "reason"),
        (KEY.name, DAY_MS, "x" * 257, "reason"),
        ("", DAY_MS, "x", "alert"),
        ("stream/logs", DAY_MS, "x", "alert"),
        ("stream/logs/no-rule/live", DAY_MS, "x", "alert"),
        ("group/g/lag-page", DAY_MS, "x", "alert"),
        ("stream/lo gs/lag-page", DAY_MS, "x", "alert"),
        ("stream/logs/lag-page/a/b/c", DAY_MS, "x", "alert"),
    ],
)
def test_a_silence_that_cannot_be_is_refused(alert: str, lasting_ms: int, reason: str, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        played(CreateSilence(alert, lasting_ms, reason))
    assert (caught.value.field, bool(caught.value.remedy)) == (field, True)


def test_silences_are_bounded_and_one_may_be_renewed() -> None:
    state, _ = played(
        *[CreateSilence(f"stream/s{n}/lag-page", DAY_MS, "x") for n in range(SILENCES_MAX)], state=Alerts()
    )
    with pytest.raises(Exhausted):
        played(CreateSilence(KEY.name, DAY_MS, "x"), state=state)
    assert played(CreateSilence("stream/s1/lag-page", DAY_MS, "again"), state=state)[1]


def test_a_silence_ends_at_its_time_or_by_a_person() -> None:
    state, _ = played(CreateSilence(KEY.name, DAY_MS, "x"), CreateSilence(DOWN.name, 2 * DAY_MS, "x"))
    assert played(ExpireSilences(), state=state)[1] == []
    assert played(ExpireSilences(), state=state, now_ms=NOW + DAY_MS)[1] == [SilenceEnded(KEY.name, EXPIRED)]
    after, told = played(DeleteSilence(DOWN.name), state=state)
    assert told == [SilenceEnded(DOWN.name, "ended by ann")]
    with pytest.raises(NotFound):
        played(DeleteSilence(DOWN.name), state=after)


# --- bytes


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    known = pb.LagmonEvent.DESCRIPTOR.oneofs_by_name["event"].fields
    fields = {field.name for field in known if field.number < 20}  # from there on they are those of outlets
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = AlertsCodec().decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]
    assert AlertsCodec().encode(event, context) == base64.b64decode(golden["data"])


@pytest.mark.parametrize("data", [b"\xff\xff", b"", b"\xfa\x3f\x00"])
def test_what_is_no_known_event_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        AlertsCodec().decode(data)


def test_states_survive_the_round_trip() -> None:
    state, _ = played(
        RecordChanges([firing(), firing(DOWN)]),
        RecordChanges(resolved=[(DOWN.name, "over")]),
        CreateSilence(KEY.name, DAY_MS, "x"),
    )
    data = ALERTS.codec.encode_state(state)
    assert ALERTS.codec.decode_state(data) == state
    assert ALERTS.codec.encode_state(ALERTS.codec.decode_state(data)) == data


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1,"open":[{}]}'])
def test_what_is_no_state_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        ALERTS.codec.decode_state(data)
