"""The losses if a stream is deleted: its records, and the work of its groups and their members."""

from collections.abc import Sequence
from typing import NamedTuple

from braid.api.assigner.v1.group_pb2 import Group
from braid.api.registry.v1.stream_pb2 import Channel
from braid.cli.core.lists import all_channels, all_groups
from braid.cli.core.session import Session
from braid.kernel.errors import AccessDenied, DeadlineExceeded, NotLeader, Unavailable


class Losses(NamedTuple):
    """A sentence that names the losses, and whether they matter to anybody."""

    text: str
    consumed: bool


async def stream_losses(session: Session, name: str) -> Losses:
    """The losses if a stream is deleted, as far as the caller may see them.

    Raises:
        NotFound: the stream does not exist.
    """
    try:
        channels = await all_channels(session, stream=name)
    except AccessDenied:
        return Losses(losses_text(name, [], None, "you may not see them"), consumed=False)
    try:
        groups = await all_groups(session, name)
    except (Unavailable, DeadlineExceeded, NotLeader):
        return Losses(losses_text(name, channels, None), consumed=True)
    return Losses(losses_text(name, channels, groups), consumed=bool(groups))


def losses_text(
    name: str, channels: Sequence[Channel], groups: Sequence[Group] | None, why: str = "no assigner answers"
) -> str:
    """The sentence for these channels and groups; None for groups that could not be listed, and why."""
    where = ", ".join(sorted({each.cluster for each in channels}))
    lost = f"every record in its {_counted(len(channels), 'channel')} on {where}" if channels else "every record"
    return f"This deletes stream {name} for good: {lost}{_groups_text(groups, why)}."


def _groups_text(groups: Sequence[Group] | None, why: str) -> str:
    if groups is None:
        return f"; which groups consume it is not known, for {why}"
    parts: list[str] = []
    for title, others in (("ends", False), ("goes on without it", True)):
        found = [each for each in groups if (len(set(each.spec.streams)) > 1) is others]
        named = ", ".join(f"{each.name} ({_counted(each.status.members, 'member')})" for each in found)
        if found:
            parts.append(f"; work of {'group' if len(found) == 1 else 'groups'} {named} {title}")
    return "".join(parts) or "; no group consumes it"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
