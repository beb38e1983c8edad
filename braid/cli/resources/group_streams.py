"""Deleted streams of groups, as `describe` shows them. Changes nothing."""

from collections.abc import Sequence
from typing import Final

from braid.api.assigner.v1 import group_pb2
from braid.cli.core.documents import Document
from braid.cli.core.lists import all_streams
from braid.cli.core.session import Session
from braid.kernel.errors import BraidError

DELETED_STREAMS: Final = "deleted_streams"  # in a group's document, and so in `-o json`


async def deleted_streams(session: Session, groups: Sequence[group_pb2.Group]) -> frozenset[str] | None:
    """Streams of the groups that the registry does not have; None, with a note, while no registry answers.

    Read the groups first. A group is registered with existing streams, so one that is missing now was deleted.
    """
    named = {stream for group in groups for stream in group.spec.streams}
    if not named:
        return frozenset()
    try:
        return frozenset(named - {stream.name for stream in await all_streams(session)})
    except BraidError as error:
        session.terminal.note(f"whether streams of groups were deleted is not known: {error.message}")
        return None


def deleted_lines(group: Document) -> list[str]:
    """Lines about a group's deleted streams, with the remedy; empty if there are none."""
    gone, spec = group.get(DELETED_STREAMS), group.get("spec")
    if not isinstance(gone, list) or not gone or not isinstance(spec, dict) or not isinstance(spec["streams"], list):
        return []
    name, many = group["name"], len(gone) > 1
    left = [str(stream) for stream in spec["streams"] if stream not in gone]
    told = f"Stream{'s' if many else ''} {', '.join(map(str, gone))} {'were' if many else 'was'} deleted"
    if left:
        return [f"{told}: group {name} goes on with {', '.join(left)}."]
    again = "one of them" if many else "the stream"
    return [
        f"{told}: group {name} has nothing left to consume.",
        f"Create {again} again, or delete the group:  braid delete group {name}",
    ]
