"""Hashes and headers are those of Datadog's library, by vectors that it made (`tests/golden/pathways`)."""

import json
from pathlib import Path
from typing import Any, Final

from braid.kernel.pathways.edges import Edge, fnv1, point_hash
from braid.kernel.pathways.header import Context, decode_context, encode_context

GOLDEN: Final = Path(__file__).resolve().parents[3] / "golden" / "pathways" / "datadog.json"
NOW_MS: Final = 1_790_000_200_000


def vectors() -> Any:
    """The pathway that Datadog's library walked."""
    return json.loads(GOLDEN.read_text())


def edge_of(tags: list[str]) -> Edge:
    """The edge with these tags."""
    said = dict(tag.split(":", 1) for tag in tags)
    return Edge(said["topic"], said.get("group", ""))


def test_fnv1_is_that_of_its_specification() -> None:
    assert fnv1(b"") == 0xCBF29CE484222325
    assert fnv1(b"a") == 0xAF63BD4C8601B7BE
    assert fnv1(b"foobar") == 0x340D8765A4DDA9C2


def test_hashes_are_those_of_datadogs_library() -> None:
    golden, parent = vectors(), 0
    for step in golden["steps"]:
        edge = edge_of(step["tags"])
        assert list(edge.tags()) == step["tags"]
        parent = point_hash(golden["service"], edge, parent)
        assert str(parent) == step["hash"]


def test_headers_of_datadogs_library_are_read() -> None:
    began_ms = vectors()["steps"][0]["now_ms"]
    for step in vectors()["steps"]:
        context = decode_context(step["header"].encode(), NOW_MS)
        assert context == Context(int(step["hash"]), began_ms, step["now_ms"], 0)


def test_headers_begin_as_those_of_datadogs_library() -> None:
    began_ms = vectors()["steps"][0]["now_ms"]
    for step in vectors()["steps"]:
        ours = encode_context(Context(int(step["hash"]), began_ms, step["now_ms"], 3)).decode()
        assert ours[:26] == step["header"][:26], "20 bytes are the same; ours has one more, the weight"
        assert len(ours) == len(step["header"]) == 28
