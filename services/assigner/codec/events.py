"""Events of a group ⇄ protobuf at rest (`events.proto`); states ⇄ bytes for snapshots. No rules, no API messages.

No rules, no API messages. Events and messages have the same names and fields; the table below says what differs.
"""

from collections.abc import Callable, Iterator
from typing import Final, cast, get_args

from braid.api.assigner.v1 import events_pb2 as pb
from braid.api.assigner.v1 import scaling_pb2 as pb_scaling
from braid.kernel.decider import Context
from braid.kernel.offset_ranges import OffsetRange
from braid.runtime.histories.event_messages import EventMessages, conversion
from services.assigner.codec import snapshots
from services.assigner.codec.responses import (
    read_response_policy,
    read_value,
    response_policy_message,
    value_message,
)
from services.assigner.codec.rules import policy_message, read_policy
from services.assigner.codec.scaling import rates_message, read_rates, read_scaling_policy, scaling_policy_message
from services.assigner.codec.specs import decode_spec, spec_message
from services.assigner.model.events import (
    Event,
    GoneReason,
    GroupIdleAlerted,
    GroupUpdated,
    LeaseGrant,
    ReleaseReason,
)
from services.assigner.model.group import Group
from services.assigner.model.lag.response_events import ResponsesSet, ResponseTaken, ResponseUndone
from services.assigner.model.lag.responses import ResponseKind, ResponseState
from services.assigner.model.lag.scaling import CapacityLimit, SeenRates
from services.assigner.model.lag.scaling_events import CapacityDesired, ScalingSet
from services.assigner.model.rules import Zones


def _grant_message(grant: LeaseGrant) -> pb.LeaseGrant:
    return pb.LeaseGrant(lease=grant.lease, member=grant.member, epoch=grant.epoch)


def _read_grant(message: pb.LeaseGrant) -> LeaseGrant:
    return LeaseGrant(message.lease, message.member, message.epoch)


def _range_message(unread: OffsetRange) -> pb.UnreadRange:
    return pb.UnreadRange(partition=unread.partition, first=unread.first, last=unread.last)


def _read_range(message: pb.UnreadRange) -> OffsetRange:
    return OffsetRange(message.partition, message.first, message.last)


_EVENTS: Final = EventMessages(
    pb.AssignerEvent,
    get_args(Event),
    {
        "GroupSpec": conversion(spec_message, decode_spec),
        "PlacementPolicy": conversion(policy_message, read_policy),
        "LeaseGrant": conversion(_grant_message, _read_grant),
        "UnreadRange": conversion(_range_message, _read_range),
        "GoneReason": conversion(lambda reason: reason.value, GoneReason),
        "ReleaseReason": conversion(lambda reason: reason.value, ReleaseReason),
        "ZoneRule": conversion(lambda zones: zones.value, Zones),
        "ScalingPolicy": conversion(scaling_policy_message, read_scaling_policy),
        "SeenRates": conversion(cast("Callable[[SeenRates], pb_scaling.SeenRates]", rates_message), read_rates),
        "CapacityLimit": conversion(lambda limit: limit.value, CapacityLimit),
        "ResponsePolicy": conversion(response_policy_message, read_response_policy),
        "ResponseValue": conversion(value_message, read_value),
        "ResponseKind": conversion(lambda kind: kind.value, ResponseKind),
        "ResponseState": conversion(lambda state: state.value, ResponseState),
    },
    beside=dict.fromkeys(
        (GroupIdleAlerted, ScalingSet, CapacityDesired, ResponsesSet, ResponseTaken, ResponseUndone), GroupUpdated
    ),
)


class GroupCodec:
    """The `kernel.decider.EventCodec` for kind `group`."""

    def encode(self, event: Event, context: Context) -> bytes:
        """An event with its metadata, as an `AssignerEvent`; equal inputs give equal bytes."""
        return _EVENTS.encode(event, context)

    def decode(self, data: bytes) -> tuple[Event, Context]:
        """Reads `encode`'s bytes. Raises `CorruptHistory` for bytes that do not decode or an unknown type of event."""
        event, context = _EVENTS.decode(data)
        return cast("Event", event), context

    def encode_state(self, state: Group) -> bytes:
        """A state as bytes; equal states give equal bytes."""
        return snapshots.encode(state)

    def state_pieces(self, state: object) -> Iterator[bytes]:
        """See `PiecewiseCodec`: a group may have thousands of members and very many leases."""
        return snapshots.pieces(cast("Group", state))

    def decode_state(self, data: bytes) -> Group:
        """Reads `encode_state`'s bytes. Raises `CorruptHistory`."""
        return snapshots.decode(data)
