"""A group's rules as messages of the API."""

from typing import cast

from braid.api.assigner.v1 import rules_pb2
from services.assigner.domain import operator_rules
from services.assigner.model.group import Group
from services.assigner.model.rules import Basis, PlacementPolicy, Shadow


def policy_message(policy: PlacementPolicy) -> rules_pb2.PlacementPolicy:
    """Builds the message of a policy."""
    basis = cast("rules_pb2.PlacementBasis.ValueType", policy.basis.value)
    return rules_pb2.PlacementPolicy(basis=basis, band_high=policy.high, band_low=policy.low)


def read_policy(message: rules_pb2.PlacementPolicy) -> PlacementPolicy:
    """Reads the message of `policy_message`. Raises `ValueError` for an unknown basis."""
    return PlacementPolicy(Basis(message.basis), message.band_high, message.band_low)


def _shadow_message(shadow: Shadow) -> rules_pb2.PlacementShadow:
    return rules_pb2.PlacementShadow(policy=policy_message(shadow.policy), since_ms=shadow.since_ms)


def rules_message(state: Group) -> rules_pb2.GroupRules:
    """Builds the message of a group's rules, with the state of its drains."""
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
