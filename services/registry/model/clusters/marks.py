"""Mesh marks: claims in a log on a Kafka cluster that say which mesh the cluster belongs to. Pure: bytes and the fold.

A mark log has one partition. Its records are claims in the order in which Kafka appended them. A claim counts only if
it names the previous owner (nobody, at first). So if two meshes claim a cluster at once, one claim comes first, and
both meshes read the same answer. A claim for no mesh gives the cluster up.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

UNMARKED: Final = ""
_FORMAT: Final = "braid-mesh-mark/1"


@dataclass(frozen=True, slots=True)
class Claim:
    """One record of a mark log, by which a mesh claims the cluster.

    Attributes:
        mesh: The new owner; `UNMARKED` for none.
        over: The owner before, without which the claim does not count.
        at_ms: Wall time of the claiming process, for people.
    """

    mesh: str
    over: str
    at_ms: int


def encode(claim: Claim) -> bytes:
    """Encodes a claim as a record's value."""
    fields = {"format": _FORMAT, "mesh": claim.mesh, "over": claim.over, "at_ms": claim.at_ms}
    return json.dumps(fields, separators=(",", ":")).encode()


def parse(value: bytes | None) -> Claim | None:
    """Reads a record's value; None if it is no claim of this format."""
    try:
        fields = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        return None
    mesh, over, at_ms = fields.get("mesh"), fields.get("over"), fields.get("at_ms")
    if not isinstance(mesh, str) or not isinstance(over, str) or not isinstance(at_ms, int):
        return None
    return Claim(mesh, over, at_ms)


def owner(values: Iterable[bytes | None], *, whole: bool) -> str:
    """Folds the claims of a mark log, in order, to the mesh that owns the cluster; `UNMARKED` if no claim counts.

    If the log lost its beginning (not `whole`), its first claim counts, whatever owner it names.
    """
    owned, begun = UNMARKED, whole
    for claim in filter(None, map(parse, values)):
        if not begun or claim.over == owned:
            owned = claim.mesh
        begun = True
    return owned
