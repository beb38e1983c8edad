"""States of a group ⇄ canonical JSON, for snapshots. Additive only: a newer release reads what an older one wrote."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import islice
from typing import Final, TypeVar, cast

from braid.kernel.errors import BraidError, CorruptHistory
from braid.kernel.ids import ChannelId
from braid.kernel.limits.store import SNAPSHOT_PIECE_ITEMS
from braid.kernel.offset_ranges import OffsetRange
from services.assigner.codec.responses import read_responses_json, responses_json
from services.assigner.codec.scaling import read_scaling_json, scaling_json
from services.assigner.model.group import (
    Channel,
    ClusterFence,
    Doubt,
    Fencing,
    Group,
    GroupSpec,
    Lease,
    LeaseState,
    Member,
    Ownership,
    Split,
    StartKind,
    StartPosition,
    Stop,
)
from services.assigner.model.lag.responses import NO_RESPONSES
from services.assigner.model.lag.scaling import NO_SCALING
from services.assigner.model.rules import Ban, Basis, Drain, Freeze, GroupRules, Pin, PlacementPolicy, Shadow, Zones

T = TypeVar("T")
Json = Mapping[str, object]

_FORMAT: Final = 1
_TIGHT: Final = (",", ":")
_ENCODER: Final = json.JSONEncoder(separators=_TIGHT, ensure_ascii=False)  # keys as they come: in a fixed order
LATER: Final = ("idle_alerted", "resets", "bumped_in", "tenant")  # what JSON has, as it is
_INITIAL: Final = Group("")
_LATER_OF_CHANNELS: Final[Json] = {
    "reading": False,
    "ending": False,
    "unproved": False,
    "left_revision": 0,
    "in_order": False,
    "unread": (),
}
_SECRET: Final = "secret_digest"  # of a member; it came later, too
_MEMBER_FIELDS: Final = tuple(sorted(field.name for field in fields(Member) if field.name != _SECRET))


def encode(state: Group) -> bytes:
    """Encodes a state as bytes; equal states give equal bytes."""
    return b"".join(pieces(state))


def pieces(state: Group) -> Iterator[bytes]:
    """Yields the bytes of `encode` in pieces: leases and members, of which there may be very many, some at a time."""
    document = {
        "format": _FORMAT,
        "name": state.name,
        "spec": None if state.spec is None else _spec_json(state.spec),
        "spec_changes": state.spec_changes,
        "created_at_ms": state.created_at_ms,
        "channels": [_channel_json(channel) for _, channel in sorted(state.channels.items())],
        "last_epoch": state.last_epoch,
        "idle_since_ms": state.idle_since_ms,
        "idle_expired": state.idle_expired,
        "fences": {cluster: asdict(fence) for cluster, fence in sorted(state.fences.items())},
        "rules": {**_rules_json(state.rules), **_later_json(state)},
        "stops": {key: asdict(stop) for key, stop in sorted(state.stops.items())},
        "doubts": {key: asdict(doubt) for key, doubt in sorted(state.doubts.items())},
        "splits": {lease: asdict(split) for lease, split in sorted(state.splits.items())},
    }
    yield json.dumps(document, sort_keys=True, separators=_TIGHT, ensure_ascii=False)[:-1].encode() + b',"leases":{'
    leases = ((name, _lease_json(lease)) for name, lease in state.leases.items())
    yield from _elements(_ENCODER.encode(dict(some)) for some in _slices(leases))
    yield b'},"members":['
    members = (_member_json(member) for _, member in sorted(state.members.items()))
    yield from _elements(_ENCODER.encode(some) for some in _slices(members))
    yield b"]}"


def _later_json(state: Group) -> Json:
    """Returns the fields of a group that came after the first release, if they are set.

    That release refuses fields it does not know anywhere but within the rules, which is why they stand there.
    """
    later = {name: value for name in LATER if (value := getattr(state, name)) != getattr(_INITIAL, name)}
    channels = {name: told for name, each in sorted(state.channels.items()) if (told := _later_of_channel(each))}
    secrets = {each.id: each.secret_digest for each in state.members.values() if each.secret_digest}
    scaling = None if state.scaling == NO_SCALING else scaling_json(state.scaling)
    told = {
        "later": later,
        "later_of_channels": channels,
        "later_of_members": dict(sorted(secrets.items())),
        "scaling": scaling,
        "scaling_cpu_apart": state.scaling.desired is not None and state.scaling.desired.shortage.cpu_apart,
        "responses": None if state.responses == NO_RESPONSES else responses_json(state.responses),
    }
    return {name: value for name, value in told.items() if value}


def _slices(items: Iterator[T]) -> Iterator[list[T]]:
    """Yields slices that take a few milliseconds to write."""
    while some := list(islice(items, SNAPSHOT_PIECE_ITEMS)):
        yield some


def _elements(written: Iterable[str]) -> Iterator[bytes]:
    """Joins the elements of several lists or objects as if they were one."""
    for number, text in enumerate(written):
        yield ("," * (number > 0) + text[1:-1]).encode()


def decode(data: bytes) -> Group:
    """Reads the bytes of `encode`. Raises `CorruptHistory` for anything else."""
    try:
        document = json.loads(data)
        if document["format"] != _FORMAT:
            raise CorruptHistory(f"format {document['format']} is unknown", remedy="run a newer release")
        return _group(document)
    except (KeyError, TypeError, ValueError, BraidError) as error:
        raise CorruptHistory(f"no state of a group: {error}") from error


def _spec_json(spec: GroupSpec) -> Json:
    return {
        "streams": spec.streams,
        "lanes": spec.lanes,
        "ownership": spec.ownership.value,
        "lease_ms": spec.lease_ms,
        "start": [spec.start.kind.value, spec.start.time_ms],
        "fencing": spec.fencing.value,
    }


def _member_json(member: Member) -> Json:
    return {name: getattr(member, name) for name in _MEMBER_FIELDS}


def _channel_json(channel: Channel) -> Json:
    """Returns a channel with the fields of the first release; the other fields are in `_later_json`."""
    told = asdict(channel)
    return {name: value for name, value in told.items() if name not in _LATER_OF_CHANNELS} | {"id": str(channel.id)}


def _later_of_channel(channel: Channel) -> Json:
    return {name: value for name, usual in _LATER_OF_CHANNELS.items() if (value := getattr(channel, name)) != usual}


def _lease_json(lease: Lease) -> Sequence[object]:
    told = [lease.state.value, lease.holder, lease.epoch, lease.since_ms, lease.deadline_ms, lease.reason]
    return [*told, lease.home, lease.home_since_ms] if lease.home else told


def _rules_json(rules: GroupRules) -> Json:
    return {
        "pins": {lease: asdict(pin) for lease, pin in rules.pins.items()},
        "bans": [asdict(ban) for ban in rules.bans],
        "drains": {member: asdict(drain) for member, drain in rules.drains.items()},
        "capacities": dict(rules.capacities),
        "freeze": rules.freeze and asdict(rules.freeze),
        "zones": rules.zones.value,
        "spread": rules.spread,
        "policy": _policy_json(rules.policy),
        "shadow": rules.shadow and [*_policy_json(rules.shadow.policy), rules.shadow.since_ms],
    }


def _policy_json(policy: PlacementPolicy) -> Sequence[float]:
    return [policy.basis.value, policy.high, policy.low]


def _group(document: dict[str, object]) -> Group:
    told = {name: value for name, value in document.items() if name != "format"}
    spec = cast("dict[str, object] | None", told["spec"])
    told_later = cast("Mapping[str, Mapping[str, dict[str, object]]]", told.get("rules", {}))
    secrets = told_later.get("later_of_members", {})
    items = cast("Sequence[dict[str, object]]", told["members"])
    members = [_member(item | {_SECRET: secrets.get(cast("str", item["id"]), "")}) for item in items]
    later = told_later.get("later_of_channels", {})
    items = cast("Sequence[dict[str, object]]", told["channels"])
    channels = [_channel(item | later.get(cast("str", item["id"]), {})) for item in items]
    leases = cast("Mapping[str, Sequence[object]]", told["leases"])
    fences = cast("Mapping[str, Json]", told.get("fences", {}))  # older snapshots have none
    stops = cast("Mapping[str, Json]", told.get("stops", {}))  # nor these
    doubts = cast("Mapping[str, Json]", told.get("doubts", {}))
    splits = cast("Mapping[str, Json]", told.get("splits", {}))
    told |= {
        "doubts": {key: Doubt(**item) for key, item in doubts.items()},  # type: ignore[arg-type]
        "splits": {lease: Split(**item) for lease, item in splits.items()},  # type: ignore[arg-type]
        "stops": {key: Stop(**item) for key, item in stops.items()},  # type: ignore[arg-type]
        "spec": None if spec is None else _spec(spec),
        "members": {member.id: member for member in members},
        "channels": {str(channel.id): channel for channel in channels},
        "leases": {name: _lease(item) for name, item in leases.items()},
        "fences": {cluster: ClusterFence(**item) for cluster, item in fences.items()},  # type: ignore[arg-type]
        "rules": _rules(cast("dict[str, object]", told.get("rules", {}))),  # nor these
    }
    told |= cast("dict[str, dict[str, object]]", document.get("rules", {})).get("later", {})
    if scaling := cast("dict[str, Sequence[object]]", told_later).get("scaling"):
        apart = bool(cast("dict[str, object]", told_later).get("scaling_cpu_apart"))
        told["scaling"] = read_scaling_json(scaling, cpu_apart=apart)
    if responses := cast("dict[str, Sequence[object]]", told_later).get("responses"):
        told["responses"] = read_responses_json(responses)
    return Group(**told)  # type: ignore[arg-type]  # JSON has no types; a wrong field is a TypeError


def _spec(item: dict[str, object]) -> GroupSpec:
    lanes = cast("Sequence[Sequence[object]]", item["lanes"])
    kind, time_ms = cast("tuple[str, int]", item["start"])
    return GroupSpec(
        tuple(cast("Sequence[str]", item["streams"])),
        tuple((cast("str", lane), cast("int", share)) for lane, share in lanes),
        Ownership(item["ownership"]),
        cast("int", item["lease_ms"]),
        StartPosition(StartKind(kind), time_ms),
        Fencing(item.get("fencing", Fencing.NONE.value)),
    )


def _member(item: dict[str, object]) -> Member:
    capabilities = tuple(cast("Sequence[str]", item["capabilities"]))
    return Member(**{**item, "capabilities": capabilities})  # type: ignore[arg-type]  # as above


def _channel(item: dict[str, object]) -> Channel:
    start = cast("Sequence[int] | None", item["start"])
    reset = cast("Sequence[int] | None", item.get("reset"))  # older snapshots have none
    parsed = {
        "id": ChannelId.parse(cast("str", item["id"])),
        "start": None if start is None else tuple(start),
        "reset": None if reset is None else tuple(reset),
        "unread": tuple(OffsetRange(*each) for each in cast("Sequence[Sequence[int]]", item.get("unread", ()))),
    }
    return Channel(**{**item, **parsed})  # type: ignore[arg-type]  # as above


def _lease(item: Sequence[object]) -> Lease:
    state, *rest = item
    return Lease(LeaseState(state), *rest)  # type: ignore[arg-type]  # as above


def _rules(item: dict[str, object]) -> GroupRules:
    """Reads a group's rules; rules that an older release did not write are absent."""
    pins = cast("Mapping[str, Json]", item.get("pins", {}))
    bans = cast("Sequence[Json]", item.get("bans", ()))
    drains = cast("Mapping[str, Json]", item.get("drains", {}))
    freeze = cast("Json | None", item.get("freeze"))
    return GroupRules(
        {lease: Pin(**pin) for lease, pin in pins.items()},  # type: ignore[arg-type]  # as above
        tuple(Ban(**ban) for ban in bans),  # type: ignore[arg-type]
        {member: Drain(**drain) for member, drain in drains.items()},  # type: ignore[arg-type]
        cast("Mapping[str, float]", item.get("capacities", {})),
        Freeze(**freeze) if freeze else None,  # type: ignore[arg-type]
        Zones(item.get("zones", Zones.ANY.value)),
        bool(item.get("spread", False)),
        _policy(cast("Sequence[float]", item.get("policy", _policy_json(PlacementPolicy())))),
        Shadow(_policy(tried[:3]), int(tried[3])) if (tried := cast("Sequence[float]", item.get("shadow"))) else None,
    )


def _policy(item: Sequence[float]) -> PlacementPolicy:
    basis, high, low = item
    return PlacementPolicy(Basis(basis), high, low)
