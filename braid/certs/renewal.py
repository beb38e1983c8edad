"""Which leaves are to be made anew, and why. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from braid.certs.contents import LeafContents
from braid.kernel.limits.certs import LEAF_RENEWAL_SHARE


class LeafState(StrEnum):
    """How a leaf is. Each but OK is a reason to make it anew."""

    OK = "ok"
    ENDED = "ended"
    ENDS_SOON = "ends soon"
    OTHER_CA = "other ca"
    OLD_BUNDLE = "old bundle"


class IssuedLeaf(NamedTuple):
    """A leaf as it lies in its directory.

    Attributes:
        contents: What it says.
        signed_by_ca: Whether today's CA signed it.
        bundle_current: Whether the certificates of CAs beside it, and in its chain, are those of today.
    """

    contents: LeafContents
    signed_by_ca: bool
    bundle_current: bool


def leaf_state(leaf: IssuedLeaf, now: datetime, within_days: float | None = None) -> LeafState:
    """How a leaf is.

    Args:
        leaf: Which.
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
