"""Events of outlets ⇄ protobuf at rest; states ⇄ canonical JSON for snapshots. No rules."""

import json
from typing import Any, Final, cast

from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.runtime.histories.kinds import Kind
from services.lagmon.alerts.codec import EVENTS
from services.lagmon.alerts.outlets.decisions.domain import Outlets, OutletsDecider
from services.lagmon.alerts.outlets.decisions.events import Command, Event
from services.lagmon.alerts.outlets.decisions.model import Firing, NotificationType, Outlet, Told

_FORMAT: Final = 1


class OutletsCodec:
    """The `kernel.decider.EventCodec` of the kind `outlets`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """Encodes an event and its metadata as a `LagmonEvent`; equal inputs give equal bytes."""
        return EVENTS.encode(event, context)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Decodes `encode`'s bytes. Raises `CorruptHistory` for damaged bytes or an unknown event type."""
        event, context = EVENTS.decode(data)
        return cast("Event", event), context

    def encode_state(self, state: Outlets) -> bytes:
        """Encodes a state; equal states give equal bytes."""
        document = {"format": _FORMAT, "outlets": {name: _document(each) for name, each in state.known.items()}}
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def decode_state(self, data: bytes) -> Outlets:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        try:
            document = json.loads(data)
            if document["format"] != _FORMAT:
                raise CorruptHistory("the snapshot's format is unknown", remedy="run a newer release")
            return Outlets({name: _outlet(each) for name, each in document["outlets"].items()})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptHistory(f"no state of outlets: {error}") from error


OUTLETS: Final[Kind[Outlets, Command, Event]] = Kind("outlets", OutletsDecider(), OutletsCodec())


def _document(outlet: Outlet) -> dict[str, Any]:
    told = [
        [firing.alert, firing.fired_ms, each.last or 0, each.begun or 0, each.count, each.at_ms]
        for firing, each in sorted(outlet.told.items())
    ]
    return {"since_ms": outlet.since_ms, "trouble": outlet.trouble, "trouble_ms": outlet.trouble_ms, "told": told}


def _outlet(document: dict[str, Any]) -> Outlet:
    told = {
        Firing(alert, fired_ms): Told(_type(last), _type(begun), count, at_ms)
        for alert, fired_ms, last, begun, count, at_ms in document["told"]
    }
    return Outlet(document["since_ms"], document["trouble"], document["trouble_ms"], told)


def _type(number: int) -> NotificationType | None:
    return NotificationType(number) if number else None
