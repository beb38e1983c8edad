"""When a leaf is made anew."""

from datetime import UTC, datetime, timedelta

import pytest

from braid.certs.contents import NOWHERE, leaf_contents
from braid.certs.identity import Identity
from braid.certs.renewal import IssuedLeaf, LeafState, leaf_state

MADE = datetime(2026, 1, 1, tzinfo=UTC)
CONTENTS = leaf_contents(Identity.parse("user/anna"), "braid.local", NOWHERE, 90, MADE, MADE + timedelta(days=3_650))


@pytest.mark.parametrize(
    ("day", "signed_by_ca", "bundle_current", "state"),
    [
        (59, True, True, LeafState.OK),
        (60, True, True, LeafState.ENDS_SOON),
        (90, True, True, LeafState.ENDED),
        (0, False, True, LeafState.OTHER_CA),
        (0, True, False, LeafState.OLD_BUNDLE),
        (91, False, False, LeafState.ENDED),
    ],
)
def test_a_leaf_has_one_state(day: int, signed_by_ca: bool, bundle_current: bool, state: LeafState) -> None:
    leaf = IssuedLeaf(CONTENTS, signed_by_ca, bundle_current)
    assert leaf_state(leaf, MADE + timedelta(days=day)) is state


@pytest.mark.parametrize(("within_days", "state"), [(20, LeafState.OK), (21, LeafState.ENDS_SOON)])
def test_another_span_before_the_end_may_be_asked_for(within_days: float, state: LeafState) -> None:
    leaf = IssuedLeaf(CONTENTS, True, True)
    assert leaf_state(leaf, MADE + timedelta(days=69, seconds=1), within_days) is state
