"""Contents of a leaf, and requests that are refused before anything is signed."""

from datetime import UTC, datetime, timedelta

import pytest

from braid.certs.contents import NOWHERE, LeafContents, Reached, Validity, ca_validity, leaf_contents
from braid.certs.identity import Identity
from braid.kernel.errors import Invalid, Refused

NOW = datetime(2026, 11, 27, 10, 0, 0, 123, tzinfo=UTC)
LATER = NOW + timedelta(days=3_650)
SERVICE = Identity.parse("service/registry-0")
LOCAL = Reached(("localhost",))
ANNA = Identity.parse("user/anna")


def leaf(identity: Identity = SERVICE, reached: Reached = LOCAL, days: int = 90) -> LeafContents:
    return leaf_contents(identity, "braid.local", reached, days, NOW, LATER)


def test_a_leaf_is_backdated_five_minutes() -> None:
    assert leaf().validity == Validity(
        datetime(2026, 11, 27, 9, 55, tzinfo=UTC), datetime(2027, 2, 25, 10, 0, tzinfo=UTC)
    )
    assert leaf().validity.days == 90


def test_only_a_service_may_serve() -> None:
    assert leaf().serves
    assert not leaf(ANNA, NOWHERE).serves


def test_addresses_are_kept_once_in_their_usual_form() -> None:
    reached = Reached(("Registry.Example.com.", "registry.example.com", "*.mesh"), ("::0001", "10.0.0.1"))
    assert leaf(reached=reached).reached == Reached(("registry.example.com", "*.mesh"), ("::1", "10.0.0.1"))


@pytest.mark.parametrize(
    ("identity", "reached", "days", "field"),
    [
        (SERVICE, NOWHERE, 90, "--dns"),
        (SERVICE, Reached(("a_b",)), 90, "--dns"),
        (SERVICE, Reached(("10.0.0.1",)), 90, "--dns"),
        (SERVICE, Reached((f"{'a.' * 127}com",)), 90, "--dns"),
        (SERVICE, Reached(tuple(f"a{n}" for n in range(65))), 90, "--dns"),
        (SERVICE, Reached((), ("10.0.0",)), 90, "--ip"),
        (ANNA, Reached(("localhost",)), 90, "--dns"),
        (ANNA, Reached((), ("10.0.0.1",)), 90, "--ip"),
        (ANNA, NOWHERE, 0, "--days"),
        (ANNA, NOWHERE, 826, "--days"),
    ],
)
def test_what_is_out_of_form_is_refused_by_flag(identity: Identity, reached: Reached, days: int, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        leaf(identity, reached, days)
    assert refused.value.field == field


def test_a_leaf_never_outlives_its_ca() -> None:
    ends = ca_validity(NOW).ends
    late = ends - timedelta(days=89)
    with pytest.raises(Refused, match="before a certificate of 90 days"):
        leaf_contents(ANNA, "braid.local", NOWHERE, 90, late, ends)
    assert leaf_contents(ANNA, "braid.local", NOWHERE, 89, late, ends).validity.ends <= ends
