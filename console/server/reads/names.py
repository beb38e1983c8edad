"""Names of everything that a person may look for, and how they are found."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.rpc.documents import Document, Value
from braid.rpc.pages import ListRequest, Page
from console.server.limits import NAMES_FOUND_MAX
from console.server.live.parts import Content, Part, Table
from console.server.reads.listing import name_of
from console.server.reads.reader import Reader
from console.server.reads.view import Params, Read, whole_number

P = TypeVar("P", bound=Page)

_SECONDS = 5.0  # between two reads: what was made just now is found soon


def names() -> tuple[Read, Read, Read]:
    """The names of streams, groups and clusters, a part each."""
    return (
        _names(
            "stream",
            "registry",
            "ListStreams",
            registry_api.ListStreamsRequest(),
            registry_api.ListStreamsResponse,
            lambda page: page.streams,
        ),
        _names(
            "group",
            "assigner",
            "ListGroups",
            assigner_api.ListGroupsRequest(),
            assigner_api.ListGroupsResponse,
            lambda page: page.groups,
        ),
        _names(
            "cluster",
            "registry",
            "ListClusters",
            registry_api.ListClustersRequest(),
            registry_api.ListClustersResponse,
            lambda page: page.clusters,
        ),
    )


def find_names(parts: Mapping[str, Part], params: Params) -> Document:
    """Names that contain a text, those that begin with it first; and which kinds could not be read."""
    wanted = params.get("q", "").lower()
    limit = min(whole_number(params, "limit", 1_000) or 50, NAMES_FOUND_MAX)
    found = [(kind, name) for kind, part in parts.items() for name in _rows(part) if wanted in f"{kind}/{name}"]
    found.sort(
        key=lambda each: (each[1] != wanted, not each[1].startswith(wanted), len(each[1]) if wanted else 0, each)
    )
    shown: list[Value] = [{"key": f"{kind}/{name}", "kind": kind, "name": name} for kind, name in found[:limit]]
    errors: list[Value] = [part.problem.document() for part in parts.values() if part.problem is not None]
    return {"names": shown, "more": len(found) > limit, "errors": errors}


def _rows(part: Part) -> Iterable[str]:
    return part.content.rows if isinstance(part.content, Table) else ()


def _names(
    kind: str,
    service: str,
    method: str,
    request: ListRequest,
    response_type: type[P],
    items: Callable[[P], Iterable[Message]],
) -> Read:
    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        found, more = await reader.pages(service, method, request, response_type, items)
        return {kind: Table({name_of(each): {} for each in found}, more)}

    return Read((kind,), take, _SECONDS)
