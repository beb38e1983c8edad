"""The names of a peer's certificate, and whether an authority still vouches for it."""

from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from braid.host.tls.peers import peer_certificate, vouched_for
from testbed.authority import ALICE, Authority


def issued(authority: Authority) -> bytes:
    return authority.issue(uris=[ALICE])[0]


def test_a_certificate_is_named_as_openssl_names_it() -> None:
    pem = issued(Authority.make())
    found, named = x509.load_pem_x509_certificate(pem), peer_certificate(pem, b"")
    assert named is not None
    assert named.fingerprint == found.fingerprint(SHA256()).hex()
    assert int(named.serial, 16) == found.serial_number
    assert named.expire_ms == found.not_valid_after_utc.timestamp() * 1_000
    assert named.chain == pem


def test_what_is_no_certificate_names_nobody() -> None:
    assert peer_certificate(b"", b"") is None
    assert peer_certificate(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"") is None


def test_a_ca_vouches_for_what_it_signed_and_for_nothing_else() -> None:
    one, other = Authority.make("One"), Authority.make("Other")
    namesake = Authority.make("One")
    leaf = issued(one)
    assert vouched_for(leaf, one.pem)
    assert vouched_for(leaf, other.pem + one.pem)
    assert not vouched_for(leaf, other.pem)
    assert not vouched_for(leaf, namesake.pem), "the same name, another key"
    assert not vouched_for(leaf, b"")


def test_a_way_over_intermediates_in_any_order() -> None:
    root = Authority.make("Root")
    upper = root.intermediate("Upper")
    lower = upper.intermediate("Lower")
    leaf = issued(lower)
    for others in (lower.pem + upper.pem, upper.pem + lower.pem):
        assert vouched_for(leaf + others, root.pem)
        assert vouched_for(leaf + others, upper.pem), "an intermediate is trusted by itself"
        assert not vouched_for(leaf + others, Authority.make("Root").pem)
    assert not vouched_for(leaf + upper.pem, root.pem), "a link is missing"
    assert vouched_for(leaf, leaf), "a certificate may be trusted by itself"


def test_a_certificate_that_has_ended_is_named_all_the_same() -> None:
    pem, _ = Authority.make().issue(uris=[ALICE], lifetime=timedelta(days=-1))
    assert peer_certificate(pem, b"") is not None


def test_a_leaf_among_the_others_vouches_for_nobody() -> None:
    root = Authority.make("Root")
    pem, key = root.issue(uris=[ALICE], name="Leaf")
    leaf = x509.load_pem_x509_certificate(pem)
    signer = load_pem_private_key(key, None)
    assert isinstance(signer, EllipticCurvePrivateKey)
    forged, _ = Authority(signer, leaf).issue(uris=["spiffe://test.local/user/bob"])
    assert not vouched_for(forged + pem, root.pem)
