"""Valid record ids, and the chunks that they belong to."""

import pytest

from pipelines.table.identity import CHUNK_SEQUENCES
from tests.support.record_identity import Identity, bucket_of, identity_of

ULID = "01K0000000000000000000000A"


def test_an_id_names_producer_and_sequence_wherever_a_copy_lies() -> None:
    copies = {identity_of(f"{ULID}:7", cluster, "t", 0, offset) for cluster, offset in (("east", 1), ("west", 9))}
    assert copies == {Identity(ULID, 7)}


@pytest.mark.parametrize(
    "record_id",
    [None, "", "7", f"{ULID}:", f"{ULID}:07", f"{ULID}:-1", f"{ULID}:7\n", f"{ULID}:{10**18}", f"{ULID.lower()}:7"],
)
def test_a_record_without_an_id_in_form_is_where_it_lies(record_id: str | None) -> None:
    assert identity_of(record_id, "east", "t", 3, 42) == Identity("east/t/3", 42)


def test_the_largest_sequence_in_form_fits_64_bits() -> None:
    assert identity_of(f"{ULID}:{10**18 - 1}", "east", "t", 0, 0).sequence < 1 << 63


def test_a_chunk_is_in_one_bucket_and_its_neighbour_in_the_next() -> None:
    first = {bucket_of(Identity(ULID, sequence), 32) for sequence in (0, 1, CHUNK_SEQUENCES - 1)}
    second = bucket_of(Identity(ULID, CHUNK_SEQUENCES), 32)
    assert len(first) == 1
    assert second == (first.pop() + 1) % 32
