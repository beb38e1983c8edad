"""Decides which leaves to renew, and why. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from braid.certs.contents import LeafContents
from braid.kernel.limits.access.certs import LEAF_RENEWAL_SHARE


class LeafState(StrEnum):
    """The state of a leaf. Every state except OK is a reason to renew it."""

    OK = "ok"
    ENDED = "ended"
    ENDS_SOON = "ends soon"
    OTHER_CA = "other ca"
    OLD_BUNDLE = "old bundle"


class IssuedLeaf(NamedTuple):
    """A leaf in its directory.

    Attributes:
        contents: Its contents.
        signed_by_ca: Whether the present CA signed it.
        bundle_current: Whether its CA bundle and its chain are up to date.
    """

    contents: LeafContents
    signed_by_ca: bool
    bundle_current: bool


def leaf_state(leaf: IssuedLeaf, now: datetime, within_days: float | None = None) -> LeafState:
    """Judges the state of a leaf.

    Args:
        leaf: The leaf.
        now: In UTC.
        within_days: A leaf that ends within so many days ends soon; by default within a third of its life.
    """
    left = leaf.contents.validity.days_left(now)
    if left <= 0:
        return LeafState.ENDED
    if not leaf.signed_by_ca:
        return LeafState.OTHER_CA
    if not leaf.bundle_current:
        return LeafState.OLD_BUNDLE
    soon = leaf.contents.validity.days * LEAF_RENEWAL_SHARE if within_days is None else within_days
    return LeafState.ENDS_SOON if left <= soon else LeafState.OK
