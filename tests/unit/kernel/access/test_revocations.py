"""Identities in their one form, and who falls under a revocation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.access.revocations import (
    Revocation,
    check_identity,
    find_revocation,
    identities_of,
    is_certificate,
)
from braid.kernel.errors import Invalid
from braid.kernel.ports import Caller, PeerCertificate

ORDERS = "spiffe://braid.local/app/orders"
CERTIFICATE = PeerCertificate("ab" * 32, "a1b", 1_000)
KNOWN = Caller(ORDERS, "default", "", "peer", True, certificate=CERTIFICATE)
PRINCIPAL, FINGERPRINT, SERIAL = ORDERS, f"sha256:{'ab' * 32}", "serial:a1b"


@given(st.binary(min_size=32, max_size=32), st.booleans(), st.booleans())
def test_a_fingerprint_has_one_form_however_it_is_typed(digest: bytes, upper: bool, colons: bool) -> None:
    typed = digest.hex(":") if colons else digest.hex()
    identity = check_identity(f"sha256:{typed.upper() if upper else typed}", "identity")
    assert identity == f"sha256:{digest.hex()}" and is_certificate(identity)
    assert check_identity(identity, "identity") == identity


@given(st.integers(1, (1 << 160) - 1))
def test_a_serial_number_has_one_form_however_it_is_typed(serial: int) -> None:
    assert check_identity(f"serial:{serial:#042X}", "identity") == f"serial:{serial:x}"


@given(st.text(max_size=80))
def test_what_is_no_identity_is_refused_by_its_field(text: str) -> None:
    for typed in (f"sha256:{text}", f"serial:{text}", text):
        try:
            assert check_identity(check_identity(typed, "here"), "here") == check_identity(typed, "here")
        except Invalid as error:
            assert error.field == "here" and "is no identity" in error.message


@pytest.mark.parametrize("identity", [PRINCIPAL, FINGERPRINT, SERIAL])
def test_a_caller_falls_under_its_own_identities_and_no_other(identity: str) -> None:
    revoked = {identity: Revocation(identity)}
    assert find_revocation(revoked, KNOWN) == Revocation(identity)
    other = Caller("dns:other", "default", "", "peer", True, certificate=PeerCertificate("cd" * 32, "b", 1_000))
    assert find_revocation(revoked, other) is None


def test_what_a_caller_claims_and_does_not_prove_is_no_identity() -> None:
    assert not identities_of(Caller(ORDERS, "default", "", "peer", False))
    assert list(identities_of(Caller(ORDERS, "default", "", "peer", True))) == [ORDERS]
