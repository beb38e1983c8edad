"""Rows of events: what leads them, and what they give as their cause."""

from braid.api.mesh.v1.event_pb2 import EventMetadata, EventRecord
from braid.api.registry.v1 import events_pb2 as pb
from braid.cli.core.output import Format, render
from braid.cli.history.feed import COLUMNS, event_item, summary

WHY = "cluster east is DOWN: every broker refuses; to west: standby"


def moved(reason: str, cause: str) -> EventRecord:
    """A move of two lanes' traffic."""
    event = pb.TrafficMoved(route_revision=7, reason=reason)
    for lane in ("bulk", "live"):
        event.activated.add(lane=lane, generation=2, weight=1.0)
        event.draining.add(lane=lane, generation=1)
    return EventRecord(
        history="registry/stream/logs",
        sequence=12,
        type="TrafficMoved",
        metadata=EventMetadata(time_ms=1, actor="registry-0", cause=cause),
        data=pb.RegistryEvent(traffic_moved=event).SerializeToString(),
    )


def test_a_moves_row_begins_with_its_reason_within_80_columns() -> None:
    row = render(Format.TABLE, COLUMNS, [event_item(moved(WHY, "cluster/east"))], 2, narrow=True).splitlines()[1]
    assert len(row) <= 80
    assert row.split()[1:6] == ["TrafficMoved", "cluster", "east", "is", "DOWN:"]
    whole = render(Format.TABLE, COLUMNS, [event_item(moved(WHY, "cluster/east"))], 2, narrow=False)
    assert f"{WHY} route_revision=7 " in whole and "draining=[bulk/1,live/1]" in whole


def test_a_requested_moves_cause_is_the_reason_given() -> None:
    wide = [header.header for header in COLUMNS.middle].index("CAUSE")
    assert event_item(moved(WHY, "cluster/east")).cells[wide] == "cluster/east"
    assert event_item(moved("upgrade of east", "")).cells[wide] == "upgrade of east"


def test_a_cursor_of_dead_letters_is_written_as_their_names_end() -> None:
    assert summary({"cursor": {"generation": 1, "partition": 0, "offset": 9}, "sent": 2}) == "cursor=1/0/9 sent=2"
