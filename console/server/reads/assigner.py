"""Reads of the assigner: groups, members and leases."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, responses_pb2
from braid.kernel.errors import BraidError
from braid.rpc.documents import Document, to_document
from console.server.limits import SLOW_POLL_SECONDS
from console.server.live.parts import Content, Single, Table
from console.server.reads.listing import listing
from console.server.reads.reader import Memo, Reader
from console.server.reads.view import Params, Read

ASSIGNER = "assigner"


def groups(stream_param: str) -> Read:
    """The groups of the stream that a parameter names."""
    memo = Memo()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found, more = await _groups(reader, params[stream_param])
        return {"groups": memo.table(found, lambda each: each.name, more)}

    return Read(("groups",), take)


def counts_of(groups: Sequence[group_pb2.Group]) -> Document:
    """How many groups, members and leases there are, and how many leases nobody holds."""
    return {
        "groups": len(groups),
        "members": sum(each.status.members for each in groups),
        "leases": sum(each.status.leases for each in groups),
        "free_leases": sum(each.status.free_leases for each in groups),
    }


async def _groups(reader: Reader, stream: str) -> tuple[list[group_pb2.Group], bool]:
    return await reader.pages(
        ASSIGNER,
        "ListGroups",
        api.ListGroupsRequest(stream=stream),
        api.ListGroupsResponse,
        lambda page: page.groups,
    )


def responses() -> Read:
    """Reads the responses of groups to lag: proposed, in force, and undone lately."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found, more = await _groups(reader, "")
        rows = {key: row for each in found if each.HasField("responses") for key, row in response_rows(each)}
        return {"responses": Table(rows, more)}

    return Read(("responses",), take)


def response_rows(group: group_pb2.Group) -> Iterator[tuple[str, Document]]:
    """The responses of a group by key, each with its group; of those undone, the state says so. Pure."""
    for each in group.responses.responses:
        row = to_document(each)
        values: Document = {name: _values(getattr(each, name)) for name in ("before", "after")}
        yield f"{group.name}/{row['kind']}/{each.lane}/{each.subject}", {**row, **values, "group": group.name}
    for undone in group.responses.undone:
        row = to_document(undone)
        ended: Document = {"state": "undone", "since_ms": undone.time_ms, "reason": "", "before": "", "after": ""}
        key = f"{group.name}/{row['kind']}/{undone.lane}/{undone.subject}/{undone.time_ms}"
        yield key, {**row, **ended, "group": group.name}


def _values(values: Iterable[responses_pb2.ResponseValue]) -> str:
    return ", ".join(f"{each.name} {each.value:g}".strip() for each in values)


def group() -> Read:
    """The group that the page is about."""

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found = await reader.one(ASSIGNER, "GetGroup", api.GetGroupRequest(name=params["name"]), group_pb2.Group)
        return {"group": Single(to_document(found))}

    return Read(("group",), take)


def members() -> Read:
    """The group's members by id, each with its load relative to the mean of all, where the leader measures it."""
    memo, loads = Memo(), _Loads()

    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        request = api.ListMembersRequest(group=params["name"])
        (found, more), loaded = await asyncio.gather(
            reader.pages(ASSIGNER, "ListMembers", request, api.ListMembersResponse, lambda page: page.members),
            loads.of(reader, params["name"]),
        )
        rows = memo.table(found, lambda each: each.id, more).rows
        return {"members": Table({id: _with_load(row, loaded.get(id)) for id, row in rows.items()}, more)}

    return Read(("members",), take)


def leases() -> Read:
    """The group's leases, by name."""
    return listing(
        "leases",
        ASSIGNER,
        "ListLeases",
        lambda params: api.ListLeasesRequest(group=params["name"]),
        api.ListLeasesResponse,
        lambda page: page.leases,
    )


class _Loads:
    """Members' loads as the leader measures them, asked for rarely: it computes a placement for the answer."""

    def __init__(self) -> None:
        self._known: Mapping[str, float] = {}
        self._next = 0.0

    async def of(self, reader: Reader, group: str) -> Mapping[str, float]:
        """Loads by member; those known before where the leader does not answer, and none where it measures none."""
        now = reader.host.clock.elapsed()
        if now < self._next:
            return self._known
        self._next = now + SLOW_POLL_SECONDS
        request = api.PreviewPlacementRequest(group=group)
        try:
            found = await reader.one(ASSIGNER, "PreviewPlacement", request, api.PreviewPlacementResponse)
        except BraidError:  # the members are what the page is about; their loads come with the next answer
            return self._known
        self._known = {each.member: each.relative_load_now for each in found.members} if found.measured else {}
        return self._known


def _with_load(row: Document, load: float | None) -> Document:
    return row if load is None else {**row, "relative_load": load}
