"""Claims in a mark log: bytes both ways, and whose a cluster is by them."""

import pytest

from services.registry.model.clusters.marks import UNMARKED, Claim, encode, owner, parse


def claims(*pairs: tuple[str, str]) -> list[bytes | None]:
    return [encode(Claim(mesh, over, 7)) for mesh, over in pairs]


def test_a_claim_comes_back_from_its_bytes() -> None:
    assert parse(encode(Claim("a", "b", 1_800_000_000_123))) == Claim("a", "b", 1_800_000_000_123)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[1]",
        b"\xff",
        b"{}",
        b'{"format":"braid-mesh-mark/2","mesh":"a","over":"","at_ms":1}',
        b'{"format":"braid-mesh-mark/1","mesh":3,"over":"","at_ms":1}',
    ],
)
def test_what_is_no_claim_changes_nothing(value: bytes | None) -> None:
    assert parse(value) is None
    assert owner([value, *claims(("a", "")), value], whole=True) == "a"


@pytest.mark.parametrize(
    ("pairs", "whose"),
    [
        ((), UNMARKED),
        ((("a", ""), ("b", "")), "a"),  # two meshes at once: the first one
        ((("a", ""), ("a", "")), "a"),  # told twice
        ((("a", ""), ("b", "a"), ("a", "")), "b"),  # taken over; a late claim of the former mesh is void
        ((("a", ""), ("c", "b")), "a"),  # taken over from a mesh that does not own it
        ((("a", ""), ("", "a"), ("b", "")), "b"),  # given up, and claimed by another
        ((("a", ""), ("", "b")), "a"),  # given up by a mesh that does not own it
    ],
)
def test_a_claim_counts_if_it_names_the_owner_before_it(pairs: tuple[tuple[str, str], ...], whose: str) -> None:
    assert owner(claims(*pairs), whole=True) == whose


def test_the_first_claim_counts_in_a_log_that_lost_its_beginning() -> None:
    assert owner(claims(("b", "a"), ("c", "")), whole=False) == "b"
