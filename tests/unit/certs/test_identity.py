"""Names of certificates and their SPIFFE ids."""

import pytest

from braid.certs.identity import Identity, IdentityKind, check_trust_domain, parse_spiffe_id
from braid.kernel.errors import Invalid


@pytest.mark.parametrize("text", ["service/registry-0", "user/anna", "user/a.b_c", "app/indexer"])
def test_a_name_reads_back_as_it_was_written(text: str) -> None:
    assert str(Identity.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "anna", "user/", "host/a", "user/Anna", "user/a/b", "user/.a", "user/..", f"user/{'a' * 64}"]
)
def test_a_name_out_of_form_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        Identity.parse(text)
    assert refused.value.field == "NAME"
    assert "service/registry-0" in refused.value.remedy


def test_a_spiffe_id_has_domain_kind_and_name() -> None:
    uri = Identity(IdentityKind.USER, "anna").spiffe_id("braid.local")
    assert uri == "spiffe://braid.local/user/anna"
    assert parse_spiffe_id(uri) == ("braid.local", "user/anna")


@pytest.mark.parametrize("text", ["", "Mesh", "a b", "a/b", ".a", "a.", "a" * 256])
def test_a_trust_domain_out_of_form_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_trust_domain(text)
    assert refused.value.field == "--trust-domain"
