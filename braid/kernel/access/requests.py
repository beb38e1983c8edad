"""Which resources a request is about: its fields, read as the row of its method says. No decision."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from braid.kernel.access.roles import MESH, Action, Resource, ResourceKind
from braid.kernel.access.table import Named, Row
from braid.kernel.ids import DLQ_LANE

_KINDS: Final = {kind.value: kind for kind in ResourceKind if kind is not ResourceKind.ANYTHING}


class Need(NamedTuple):
    """An action on a resource that a request needs to be allowed."""

    action: Action
    resource: Resource


class Lookup(NamedTuple):
    """Facts that requests do not contain, known to the service that owns the resource.

    Attributes:
        streams_of_group: The registered streams of a group; none when it is not registered.
        stream_of_replay: The stream of a replay; empty when there is no such replay.
    """

    streams_of_group: Callable[[str], Iterable[str]] = lambda group: ()
    stream_of_replay: Callable[[str], str] = lambda id: ""


class StatedNeeds(NamedTuple):
    """The needs that a request states by itself: they never change, as a message does not.

    Attributes:
        action: What the request does.
        needs: The resources that it names, with what it does to each; empty when it names none.
    """

    action: Action
    needs: Sequence[Need]


def needs_of(row: Row, request: object, lookup: Lookup) -> Sequence[Need]:
    """The needs of a request, or of the first message of a duplex method; never empty."""
    return all_needs(row, stated_needs(row, request), lookup)


def stated_needs(row: Row, request: object) -> StatedNeeds:
    """The needs that a request states by itself."""
    action = row.action
    if row.lanes and list(_texts(request, Named(row.lanes))) == [DLQ_LANE]:
        action = Action.CONSUME
    return StatedNeeds(action, tuple(dict.fromkeys(_named_needs(row.names, action, request))))


def all_needs(row: Row, stated: StatedNeeds, lookup: Lookup) -> Sequence[Need]:
    """The needs of a request that states some, by what the service knows now; never empty."""
    found = [need._replace(resource=_resolved(need.resource, lookup)) for need in stated.needs]
    if row.streams_of_group:
        groups = [need.resource.name for need in found if need.resource.kind is ResourceKind.GROUP]
        registered = [stream for group in groups for stream in lookup.streams_of_group(group)]
        found += [Need(stated.action, Resource(ResourceKind.STREAM, stream)) for stream in sorted(registered)]
    return tuple(dict.fromkeys(found)) or (Need(stated.action, row.unnamed),)


def strays(row: Row, message: object, allowed: Iterable[Need]) -> Sequence[Resource]:
    """Resources that a later message of a duplex method names, and its first one did not."""
    known = {need.resource for need in allowed}
    return [need.resource for need in _named_needs(row.later, row.action, message) if need.resource not in known]


def says_hello(row: Row, message: object) -> bool:
    """Whether a message of a duplex method is one that names what the stream is about."""
    if not row.hello:
        return False
    has_field = cast("Callable[[str], bool]", getattr(message, "HasField"))  # noqa: B009 - messages are opaque here
    return has_field(row.hello)


def asks_about_itself(row: Row, request: object, principal: str) -> bool:
    """Whether a request is about its caller's own rights alone."""
    if not row.own:
        return False
    about = str(getattr(request, row.own))
    return about == principal or (row.own_if_empty and not about)


def _named_needs(names: Sequence[Named], action: Action, request: object) -> Iterator[Need]:
    for named in names:
        texts = [text for text in _texts(request, named) if text]
        for text in texts:
            yield Need(named.action or action, _resource(named, text))
        if named.required and not texts:
            yield Need(named.action or action, Resource(named.kind, "*"))


def _resource(named: Named, text: str) -> Resource:
    before, _, rest = text.partition("/")
    if not named.history:
        return Resource(named.kind, before if named.part else text)
    kind = _KINDS.get(before, ResourceKind.MESH)
    name = rest.partition("/")[0] if named.part else rest
    return MESH if kind is ResourceKind.MESH else Resource(kind, name or "*")


def _resolved(resource: Resource, lookup: Lookup) -> Resource:
    """A replay counts as its stream; one that nobody knows, and all of them, as the mesh."""
    if resource.kind is not ResourceKind.REPLAY:
        return resource
    stream = lookup.stream_of_replay(resource.name)
    return Resource(ResourceKind.STREAM, stream) if stream else MESH


def _texts(request: object, named: Named) -> Iterable[str]:
    value = request
    for part in named.field.split("."):
        value = getattr(value, part)
    if named.entry:
        return [cast("Mapping[str, str]", value).get(named.entry, "")]
    return [value] if isinstance(value, str) else cast("Iterable[str]", value)
