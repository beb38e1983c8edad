"""Names of everything that a person may look for, and how they are found."""

from collections.abc import Iterable, Mapping

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.rpc.documents import Document, Value
from console.server.limits import NAMES_FOUND_MAX
from console.server.live.parts import Content, Part, Table
from console.server.reads.reader import Reader
from console.server.reads.view import Params, Read, whole_number

_SECONDS = 5.0  # between two reads: what was made just now is found soon


def names() -> tuple[Read, Read, Read]:
    """The names of streams, groups and clusters, a part each."""
    return (
        Read(("stream",), _streams, _SECONDS),
        Read(("group",), _groups, _SECONDS),
        Read(("cluster",), _clusters, _SECONDS),
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


async def _streams(reader: Reader, params: Params) -> Mapping[str, Content]:
    found, more = await reader.pages(
        "registry",
        "ListStreams",
        lambda token: registry_api.ListStreamsRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        registry_api.ListStreamsResponse,
        lambda page: page.streams,
    )
    return {"stream": _table((each.name for each in found), more)}


async def _groups(reader: Reader, params: Params) -> Mapping[str, Content]:
    found, more = await reader.pages(
        "assigner",
        "ListGroups",
        lambda token: assigner_api.ListGroupsRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        assigner_api.ListGroupsResponse,
        lambda page: page.groups,
    )
    return {"group": _table((each.name for each in found), more)}


async def _clusters(reader: Reader, params: Params) -> Mapping[str, Content]:
    found, more = await reader.pages(
        "registry",
        "ListClusters",
        lambda token: registry_api.ListClustersRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        registry_api.ListClustersResponse,
        lambda page: page.clusters,
    )
    return {"cluster": _table((each.name for each in found), more)}


def _table(found: Iterable[str], more: bool) -> Table:
    return Table({name: {} for name in found}, more)
