"""Compares another placement policy with a group's own by measured load. Pure; decides nothing."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from services.assigner.domain.preview import wanted
from services.assigner.model.commands import Loads
from services.assigner.model.group import Group
from services.assigner.model.rules import Basis, PlacementPolicy, Shadow
from services.assigner.policy.layout import layout

_MEASURED = PlacementPolicy(Basis.LOAD)


@dataclass(frozen=True, slots=True)
class ShadowLook:
    """The moves that a policy would make now.

    Attributes:
        moves: Leases that would lie elsewhere.
        now: The most loaded member over the mean, by measured load; 1 is even.
        then: The same, were leases where the policy wants them.
    """

    moves: int
    now: float
    then: float


@dataclass(frozen=True, slots=True)
class Trial:
    """The sums of all looks at a shadow policy since this leader began."""

    shadow: Shadow
    last: ShadowLook
    looks: int = 0
    sum_now: float = 0.0
    sum_then: float = 0.0

    @property
    def average_now(self) -> float:
        """The most loaded member over the mean, averaged over all looks, as leases lie."""
        return self.sum_now / max(self.looks, 1)

    @property
    def average_then(self) -> float:
        """The same, if leases lay where the shadow policy wants them."""
        return self.sum_then / max(self.looks, 1)


def look(state: Group, loads: Loads, policy: PlacementPolicy, now_ms: int) -> Generator[None, None, ShadowLook]:
    """Compares a policy with the present placement; yields after each slice of the work."""
    everybody = state.member_columns.ids
    measured = layout(state, everybody, loads, now_ms, _MEASURED)
    target = yield from wanted(state, layout(state, everybody, loads, now_ms, policy))
    shares = [measured.relative(holders).max(initial=0.0) for holders in (measured.holders, target)]
    return ShadowLook(int(np.count_nonzero(target != measured.holders)), float(shares[0]), float(shares[1]))


def tried(before: Trial | None, shadow: Shadow, last: ShadowLook) -> Trial:
    """Returns the trial after one more look; another policy begins a new trial."""
    known = before if before is not None and before.shadow == shadow else Trial(shadow, last)
    return Trial(shadow, last, known.looks + 1, known.sum_now + last.now, known.sum_then + last.then)
