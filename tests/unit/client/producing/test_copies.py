"""Records that are sent once more keep who they are; their time is now."""

import pytest

from braid.client.records.outgoing import Copy, Receipt
from braid.kernel.errors import NotFound, RecordTooLarge
from braid.testing import MemoryMesh

HEADERS = (("k", b"1"), ("braid-id", b"01ARZ:7"), ("braid-ts", b"1700000000000"), ("k", b"2"), ("braid-lane", b"old"))


@pytest.fixture
def mesh() -> MemoryMesh:
    made = MemoryMesh()
    made.create_stream("logs", {"live": 1})
    return made


async def test_copies_keep_identity_time_and_repeated_headers(mesh: MemoryMesh) -> None:
    async with mesh.producer("logs") as producer:
        outcomes = await producer.send_copies([Copy(b"a", b"key", "live", HEADERS), Copy(None, None, "live", ())])
    first, second = outcomes
    assert isinstance(first, Receipt)
    assert isinstance(second, Receipt)
    assert first.id == "01ARZ:7"
    assert second.id != first.id
    record = mesh.records("logs")[0]
    assert (record.value, record.key) == (b"a", b"key")
    assert list(record.headers)[:4] == list(HEADERS[:4])
    assert dict(record.headers)["braid-lane"] == b"live"
    assert record.timestamp > 1_700_000_000_000


async def test_each_copy_has_its_own_outcome(mesh: MemoryMesh) -> None:
    copies = [
        Copy(b"x" * (2 << 20), None, "live", HEADERS),
        Copy(b"c", None, "nowhere", HEADERS),
        Copy(b"d", None, "live", HEADERS),
    ]
    async with mesh.producer("logs") as producer:
        outcomes = await producer.send_copies(copies)
        assert await producer.send_copies([]) == []
    assert [type(each) for each in outcomes] == [RecordTooLarge, NotFound, Receipt]
