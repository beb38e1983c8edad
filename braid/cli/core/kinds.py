"""The resource types that the command line knows, by name. `listing` defines their rows; no I/O."""

from typing import Final, NamedTuple

from braid.cli.errors import nearest, not_built
from braid.kernel.errors import Invalid


class Kind(NamedTuple):
    """A resource type: `get` accepts singular and plural, references read `<singular>/<name>`."""

    singular: str
    plural: str
    built: bool = True


class Scope(NamedTuple):
    """The selection of a query: a name, or a part of the mesh; `most` 0 is no limit, `since` a time as typed."""

    name: str = ""
    group: str = ""
    stream: str = ""
    where: str = ""
    most: int = 0
    since: str = ""


STREAM: Final = Kind("stream", "streams")
CHANNEL: Final = Kind("channel", "channels")
CLUSTER: Final = Kind("cluster", "clusters")
GROUP: Final = Kind("group", "groups")
MEMBER: Final = Kind("member", "members")
LEASE: Final = Kind("lease", "leases")
EVENT: Final = Kind("event", "events")
LAG: Final = Kind("lag", "lag")
DEADLETTER: Final = Kind("deadletter", "deadletters")
REPLAY: Final = Kind("replay", "replays")
REJECTED: Final = Kind("rejected", "rejected")
GRANT: Final = Kind("grant", "grants")
REVOCATION: Final = Kind("revocation", "revocations")
TENANT: Final = Kind("tenant", "tenants")
APPROVAL: Final = Kind("approval", "approvals")
APPROVAL_POLICY: Final = Kind("approvalpolicy", "approvalpolicies")
ALERT: Final = Kind("alert", "alerts")
PATHWAY: Final = Kind("pathway", "pathways")

KINDS: Final = (
    STREAM,
    CHANNEL,
    CLUSTER,
    GROUP,
    MEMBER,
    LEASE,
    EVENT,
    LAG,
    DEADLETTER,
    REPLAY,
    REJECTED,
    GRANT,
    REVOCATION,
    TENANT,
    APPROVAL,
    APPROVAL_POLICY,
    ALERT,
    PATHWAY,
)
_BY_NAME: Final = {name: kind for kind in KINDS for name in (kind.singular, kind.plural)}


def is_kind(text: str) -> bool:
    """Whether a word is a resource type, in singular or plural."""
    return text.lower() in _BY_NAME


def parse_kind(text: str, verb: str, allowed: tuple[Kind, ...]) -> Kind:
    """Parses a resource type.

    Raises:
        Invalid: the verb takes no such type; the nearest one is named.
        Unsupported: this release does not support the type yet.
    """
    kind = _BY_NAME.get(text.lower())
    if kind in allowed:
        return kind
    if kind is not None and not kind.built:
        raise not_built(f"`braid {verb} {text}`")
    names = [name for each in allowed for name in (each.plural, each.singular)]
    close = nearest(text, names)
    remedy = (
        f"did you mean `braid {verb} {close}`?" if close else f"it takes {', '.join(each.singular for each in allowed)}"
    )
    raise Invalid(f"`braid {verb}` knows no type {text!r}", field="TYPE", remedy=remedy)
