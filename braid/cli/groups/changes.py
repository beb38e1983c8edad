"""Sends a change of a group to the assigner and prints the answer."""

from typing import TYPE_CHECKING

from braid.cli.core.kinds import MEMBER

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.session import Session


async def change(session: "Session", method: str, request: "Message", doing: str, member: str) -> "Group":
    """Sends a change. Raises `NotFound` with the nearest existing name."""
    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.kinds import Scope
    from braid.cli.core.lists import all_groups
    from braid.cli.core.session import missing, missing_among
    from braid.cli.resources.listing import list_items
    from braid.kernel.errors import NotFound

    try:
        return await session.change("assigner", method, request, Group, doing)
    except NotFound as error:
        if error.field == "member":
            members = await list_items(session, MEMBER, Scope())
            known = [str(each.document.get("client_id") or each.name) for each in members]
            raise missing(error, member, known) from error
        if error.field == "group":
            asked = str(getattr(request, "group", ""))
            raise await missing_among(error, asked, all_groups(session)) from error
        raise


def say(session: "Session", group: "Group", done: str) -> int:
    """Prints what was changed, and any warnings."""
    session.terminal.print("\n".join([done, *(f"  note: {each}" for each in group.rules.warnings)]))
    return 0
