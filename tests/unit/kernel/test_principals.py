"""The principal that a certificate names, by the kinds of names in it."""

import pytest

from braid.kernel.errors import Unauthenticated
from braid.kernel.principals import principal_of, trust_domain

ALICE = "spiffe://braid.local/user/alice"


def test_a_spiffe_id_comes_before_dns_names() -> None:
    assert principal_of(["https://a", ALICE], ["alice.example"], "CN=alice") == ALICE


def test_without_a_spiffe_id_the_first_dns_name_counts() -> None:
    assert principal_of(["https://a"], ["B.example", "a.example"], "CN=b") == "dns:b.example"


def test_a_certificate_without_names_is_refused_by_name() -> None:
    with pytest.raises(Unauthenticated, match="the certificate of CN=bob names no principal"):
        principal_of(["https://a"], [], "CN=bob")


@pytest.mark.parametrize(
    "uris",
    [
        [ALICE, "spiffe://braid.local/user/bob"],
        ["spiffe://"],
        ["spiffe://braid.local"],
        ["spiffe:///user"],
        ["spiffe://braid.local/user/a b"],
        ["spiffe://braid.local/user/\u00e4"],
        ["spiffe://braid.local/user?x"],
        ["spiffe://braid.local/" + "a" * 2_048],
    ],
)
def test_spiffe_ids_out_of_form_are_refused(uris: list[str]) -> None:
    with pytest.raises(Unauthenticated):
        principal_of(uris, ["alice.example"], "CN=alice")


def test_a_trust_domain_is_a_spiffe_ids_alone() -> None:
    assert trust_domain(ALICE) == "braid.local"
    assert trust_domain("dns:alice.example") == ""
