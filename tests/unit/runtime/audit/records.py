"""Reads the records of a mesh, as any replica lists them."""

from collections.abc import Sequence
from typing import NamedTuple

from braid.api.mesh.v1.event_pb2 import EventFilter, EventRecord, ListEventsRequest, ListEventsResponse
from braid.kernel.audit.calls import AuditRecord, Call, CallRecorded, CallsLost
from braid.kernel.audit.retention import last_ms, last_of_each
from braid.kernel.ports import CallOptions
from braid.rpc.audit_records import parse, read_record
from braid.rpc.methods import method_path
from tests.unit.runtime.access.mesh import ADMIN, Mesh


class Found(NamedTuple):
    """Records of a mesh: calls, each with how many, and losses."""

    calls: Sequence[tuple[Call, int]]
    lost: Sequence[CallsLost]

    def of(self, rpc: str, principal: str = "") -> Sequence[tuple[Call, int]]:
        """The calls of a method, and of a principal where one is named."""
        return [each for each in self.calls if each[0].rpc == rpc and principal in ("", each[0].principal)]


async def listed(
    mesh: Mesh, service: str, history: str = "audit", filter: EventFilter | None = None
) -> Sequence[EventRecord]:
    """Events as a replica lists them, from all pages."""
    client = mesh.client(service, ADMIN, "auditor")
    request = ListEventsRequest(history=history, page_size=50, filter=filter)
    found: list[EventRecord] = []
    while True:
        page = await client.channel.unary(
            method_path(service, "ListEvents"), request, ListEventsResponse, CallOptions(5.0)
        )
        found.extend(page.events)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


async def records(mesh: Mesh, service: str = "registry", filter: EventFilter | None = None) -> Found:
    """Records as a replica lists them; of counts that were written again the last."""
    changes: list[AuditRecord] = []
    counts: list[AuditRecord] = []
    for each in await listed(mesh, service, filter=filter):
        some = changes if each.history.startswith("audit/changes/") else counts
        record = read_record(parse(each.data))
        assert record is not None and each.type == type(record).__name__
        some.append(record)
    found = sorted([*changes, *last_of_each(counts)], key=last_ms)
    calls = [(each.call, each.count) for each in found if isinstance(each, CallRecorded)]
    return Found(calls, [each for each in found if isinstance(each, CallsLost)])
