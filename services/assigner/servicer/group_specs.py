"""Reads the group spec of a request, with the defaults of this release. Pure except for messages."""

from typing import cast

from braid.api.assigner.v1 import group_pb2
from braid.kernel.errors import Invalid
from braid.kernel.limits.assigner.leases import LEASE_MS_DEFAULT
from services.assigner.codec.specs import decode_spec
from services.assigner.domain.admission import FENCING_DEFAULT
from services.assigner.model.group import Fencing, GroupSpec, Ownership


def read_wishes(message: group_pb2.GroupSpec) -> tuple[GroupSpec, frozenset[str]]:
    """Returns the wanted spec, sorted and with defaults, and the names of the fields that were not set."""
    asked = group_pb2.GroupSpec()
    asked.CopyFrom(message)
    unsaid = {name for name in ("streams", "lanes", "ownership", "fencing") if not getattr(message, name)}
    if "streams" not in unsaid:
        unsaid.discard("lanes")  # no lanes beside streams means every lane but `dlq`
    asked.ownership = message.ownership or group_pb2.OWNERSHIP_AT_LEAST_ONCE
    asked.fencing = message.fencing or cast("group_pb2.Fencing.ValueType", FENCING_DEFAULT.value)
    asked.lease_ms = message.lease_ms or LEASE_MS_DEFAULT
    streams = sorted(set(message.streams))
    del asked.streams[:]
    asked.streams.extend(streams)
    if asked.ownership not in [ownership.value for ownership in Ownership]:
        raise Invalid(f"ownership {asked.ownership} is unknown", field="spec.ownership")
    if asked.fencing not in [fencing.value for fencing in Fencing]:
        raise Invalid(f"fencing {asked.fencing} is unknown", field="spec.fencing")
    return decode_spec(asked), frozenset(unsaid)
