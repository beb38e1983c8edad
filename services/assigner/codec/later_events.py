"""Events that the first release does not know, at rest: beside an event of its own that changes nothing there.

A replica that meets an unknown type of event never leads again. So such an event stands in a field that it passes over
(`later`), beside `group_updated` with the present spec, which it folds as no change. A fact that even this release does
not know is folded as what stands beside it.
"""

from typing import Final

from braid.api.assigner.v1 import events_pb2 as pb
from services.assigner.codec.specs import decode_spec, spec_message
from services.assigner.model.events import Event, GroupIdleAlerted

LATER: Final = (GroupIdleAlerted,)


def encode(event: GroupIdleAlerted) -> pb.AssignerEvent:
    """An event, and what stands beside it."""
    beside = pb.GroupUpdated(spec=spec_message(event.spec))
    return pb.AssignerEvent(group_updated=beside, group_idle_alerted=pb.GroupIdleAlerted(left_ms=event.left_ms))


def decode(message: pb.AssignerEvent) -> Event | None:
    """The event of a later release; None when there is none, or none that is known."""
    match message.WhichOneof("later"):
        case "group_idle_alerted":
            return GroupIdleAlerted(decode_spec(message.group_updated.spec), message.group_idle_alerted.left_ms)
        case _:
            return None
