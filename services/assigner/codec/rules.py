"""Events about a group's rules ⇄ protobuf at rest (`events.proto`), and the rules as the API tells them."""

from collections.abc import Callable, Mapping
from typing import Final, cast

from braid.api.assigner.v1 import events_pb2 as pb
from braid.api.assigner.v1 import rules_pb2
from services.assigner.domain import operator_rules
from services.assigner.model.group import Group
from services.assigner.model.rules import (
    Basis,
    CapacitySet,
    CapacityUnset,
    GroupFrozen,
    GroupUnfrozen,
    LeasePinned,
    LeaseUnpinned,
    MemberBanned,
    MemberDrained,
    MemberDrainEnded,
    MemberDrainStarted,
    MemberUnbanned,
    PlacementPolicy,
    PolicySet,
    RuleEvent,
    Shadow,
    ShadowEnded,
    ShadowSet,
    SpreadingSet,
    Zones,
)


def encode(event: RuleEvent) -> pb.AssignerEvent:
    """An event about rules, as a message without metadata."""
    match event:
        case LeasePinned(lease, member, strict):
            return pb.AssignerEvent(lease_pinned=pb.LeasePinned(lease=lease, member=member, strict=strict))
        case LeaseUnpinned(lease):
            return pb.AssignerEvent(lease_unpinned=pb.LeaseUnpinned(lease=lease))
        case MemberBanned(member, path, cluster):
            return pb.AssignerEvent(member_banned=pb.MemberBanned(member=member, path=path, cluster=cluster))
        case MemberUnbanned(member, path, cluster):
            return pb.AssignerEvent(member_unbanned=pb.MemberUnbanned(member=member, path=path, cluster=cluster))
        case GroupFrozen(reason):
            return pb.AssignerEvent(group_frozen=pb.GroupFrozen(reason=reason))
        case GroupUnfrozen():
            return pb.AssignerEvent(group_unfrozen=pb.GroupUnfrozen())
        case SpreadingSet(zones, hosts):
            spreading = pb.SpreadingSet(zones=cast("rules_pb2.ZoneRule.ValueType", zones.value), hosts=hosts)
            return pb.AssignerEvent(spreading_set=spreading)
        case PolicySet(policy):
            return pb.AssignerEvent(policy_set=pb.PolicySet(policy=policy_message(policy)))
        case ShadowSet(policy):
            return pb.AssignerEvent(shadow_set=pb.ShadowSet(policy=policy_message(policy)))
        case ShadowEnded():
            return pb.AssignerEvent(shadow_ended=pb.ShadowEnded())
        case _:
            return _encode_member(event)


def _encode_member(
    event: MemberDrainStarted | MemberDrained | MemberDrainEnded | CapacitySet | CapacityUnset,
) -> pb.AssignerEvent:
    match event:
        case MemberDrainStarted(member, reason):
            return pb.AssignerEvent(member_drain_started=pb.MemberDrainStarted(member=member, reason=reason))
        case MemberDrained(member):
            return pb.AssignerEvent(member_drained=pb.MemberDrained(member=member))
        case MemberDrainEnded(member):
            return pb.AssignerEvent(member_drain_ended=pb.MemberDrainEnded(member=member))
        case CapacitySet(member, capacity):
            return pb.AssignerEvent(capacity_set=pb.CapacitySet(member=member, capacity=capacity))
        case CapacityUnset(member):
            return pb.AssignerEvent(capacity_unset=pb.CapacityUnset(member=member))


# By name of the field in `AssignerEvent`. Each takes the message of that field, which no type can say.
DECODERS: Final = cast(
    "Mapping[str, Callable[[object], RuleEvent]]",
    {
        "lease_pinned": lambda m: LeasePinned(m.lease, m.member, m.strict),
        "lease_unpinned": lambda m: LeaseUnpinned(m.lease),
        "member_banned": lambda m: MemberBanned(m.member, m.path, m.cluster),
        "member_unbanned": lambda m: MemberUnbanned(m.member, m.path, m.cluster),
        "group_frozen": lambda m: GroupFrozen(m.reason),
        "group_unfrozen": lambda m: GroupUnfrozen(),
        "member_drain_started": lambda m: MemberDrainStarted(m.member, m.reason),
        "member_drained": lambda m: MemberDrained(m.member),
        "member_drain_ended": lambda m: MemberDrainEnded(m.member),
        "capacity_set": lambda m: CapacitySet(m.member, m.capacity),
        "capacity_unset": lambda m: CapacityUnset(m.member),
        "spreading_set": lambda m: SpreadingSet(Zones(m.zones), m.hosts),
        "policy_set": lambda m: PolicySet(read_policy(m.policy)),
        "shadow_set": lambda m: ShadowSet(read_policy(m.policy)),
        "shadow_ended": lambda m: ShadowEnded(),
    },
)


def policy_message(policy: PlacementPolicy) -> rules_pb2.PlacementPolicy:
    """A policy as a message."""
    basis = cast("rules_pb2.PlacementBasis.ValueType", policy.basis.value)
    return rules_pb2.PlacementPolicy(basis=basis, band_high=policy.high, band_low=policy.low)


def read_policy(message: rules_pb2.PlacementPolicy) -> PlacementPolicy:
    """Reads `policy_message`'s. Raises `ValueError` for an unknown basis."""
    return PlacementPolicy(Basis(message.basis), message.band_high, message.band_low)


def _shadow_message(shadow: Shadow) -> rules_pb2.PlacementShadow:
    return rules_pb2.PlacementShadow(policy=policy_message(shadow.policy), since_ms=shadow.since_ms)


def rules_message(state: Group) -> rules_pb2.GroupRules:
    """A group's rules as the API tells them, with how far drains are."""
    rules = state.rules
    drains = [
        rules_pb2.MemberDrain(
            member=member,
            since_ms=drain.since_ms,
            reason=drain.reason,
            state=rules_pb2.DRAIN_STATE_DRAINED if drain.drained_at_ms else rules_pb2.DRAIN_STATE_DRAINING,
            leases=operator_rules.holds(state, member),
        )
        for member, drain in sorted(rules.drains.items())
    ]
    held = rules.freeze
    freeze = rules_pb2.GroupFreeze(since_ms=held.since_ms, reason=held.reason) if held else None
    return rules_pb2.GroupRules(
        pins=[
            rules_pb2.LeasePin(lease=lease, member=pin.member, strict=pin.strict)
            for lease, pin in sorted(rules.pins.items())
        ],
        bans=[rules_pb2.MemberBan(member=ban.member, path=ban.path, cluster=ban.cluster) for ban in rules.bans],
        drains=drains,
        capacities=dict(rules.capacities),
        freeze=freeze,
        zones=cast("rules_pb2.ZoneRule.ValueType", rules.zones.value),
        spread_hosts=rules.spread,
        warnings=operator_rules.warnings(state),
        policy=policy_message(rules.policy),
        shadow=_shadow_message(rules.shadow) if rules.shadow else None,
    )
