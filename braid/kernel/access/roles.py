"""Roles, resources and actions: what each role may do to each kind of resource. No grants, no methods.

After Kubernetes' RBAC (a role is a set of verbs on kinds) and etcd's prefixes; there are no rules that deny.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, Self

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name


class ResourceKind(Enum):
    """The kinds of resources that a right can be about."""

    MESH = "mesh"
    STREAM = "stream"
    GROUP = "group"
    CLUSTER = "cluster"
    REPLAY = "replay"  # of requests alone: a replay counts as the stream whose dead letters it delivers
    ANYTHING = "anything"  # of requests alone: whoever has the right on one resource, whichever it is


GRANTABLE: Final = (ResourceKind.MESH, ResourceKind.STREAM, ResourceKind.GROUP, ResourceKind.CLUSTER)


class Resource(NamedTuple):
    """A thing that a right is about; in a grant also a pattern: `stream/pay-*` is all streams that begin so.

    Attributes:
        kind: What it is.
        name: Its name; `*` for all of the kind. Empty for the mesh, which contains everything.
    """

    kind: ResourceKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}" if self.name else self.kind.value

    @classmethod
    def parse(cls, text: str, field: str) -> Self:
        """Reads what a grant is about: `stream/NAME`, `group/NAME`, `cluster/NAME`; `mesh` or nothing for the mesh.

        Raises:
            Invalid: another form, or a name that nothing can have.
        """
        kind_text, _, name = text.partition("/")
        kind = next((each for each in GRANTABLE if each.value == (kind_text or "mesh")), None)
        if kind is None or bool(name) == (kind is ResourceKind.MESH):
            remedy = "write stream/NAME, group/NAME or cluster/NAME; leave it out for the whole mesh"
            raise Invalid(f"{text!r} is no resource", field=field, remedy=remedy)
        if name and name != "*":
            check_name(name.removesuffix("*"), field)
        return cls(kind, name)

    def covers(self, asked: "Resource") -> bool:
        """Whether a right on this is a right on what is asked for."""
        if self.kind is ResourceKind.MESH or asked.kind is ResourceKind.ANYTHING:
            return True
        if self.kind is not asked.kind:
            return False
        return asked.name.startswith(self.name[:-1]) if self.name.endswith("*") else asked.name == self.name


MESH: Final = Resource(ResourceKind.MESH)
ANYTHING: Final = Resource(ResourceKind.ANYTHING)


class Action(Enum):
    """The actions of requests on resources; also the words of `braid can-i`, beside those of the command line."""

    CONNECT = "connect"  # learn where the replicas are
    VIEW = "view"  # see declarations, states, lag and events, but no record
    PRODUCE = "produce"  # send records
    CONSUME = "consume"  # join a group, and handle a stream's records
    INSPECT = "inspect"  # see the content of dead letters
    OPERATE = "operate"  # steer what exists: move, drain, pin, reset, replay
    CHANGE = "change"  # create, declare anew, delete, give records up
    GRANT = "grant"  # give rights, and take them
    SERVE = "serve"  # what services ask of each other


class Role(Enum):
    """A named set of actions. `SERVICE` is nobody's by a grant: the mesh's own services have it by their names."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    OPERATOR = "operator"
    STREAM_OWNER = "stream-owner"
    ADMIN = "admin"
    SERVICE = "service"

    @classmethod
    def parse(cls, text: str, field: str) -> "Role":
        """The role of a name that can be granted. Raises `Invalid`."""
        for role in cls:
            if role.value == text and role is not cls.SERVICE:
                return role
        known = ", ".join(role.value for role in cls if role is not cls.SERVICE)
        raise Invalid(f"{text!r} is no role that can be granted", field=field, remedy=f"use one of {known}")


_VIEW: Final = frozenset({Action.VIEW})
_STEER: Final = frozenset({Action.VIEW, Action.OPERATE})
_ALL: Final = frozenset(Action) - {Action.CONNECT, Action.SERVE}

# What each role may do, by the kind of what it is done to. `CONNECT` is everybody's.
ROLE_ACTIONS: Final[Mapping[Role, Mapping[ResourceKind, frozenset[Action]]]] = {
    Role.VIEWER: dict.fromkeys(GRANTABLE, _VIEW),
    Role.PRODUCER: {ResourceKind.STREAM: frozenset({Action.VIEW, Action.PRODUCE})},
    Role.CONSUMER: {
        ResourceKind.STREAM: frozenset({Action.VIEW, Action.CONSUME, Action.INSPECT}),
        ResourceKind.GROUP: frozenset({Action.VIEW, Action.CONSUME}),
    },
    Role.OPERATOR: dict.fromkeys(GRANTABLE, _STEER),
    Role.STREAM_OWNER: {ResourceKind.STREAM: _ALL - {Action.GRANT}},
    Role.ADMIN: dict.fromkeys(GRANTABLE, _ALL),
    Role.SERVICE: {
        ResourceKind.MESH: frozenset({Action.VIEW, Action.SERVE}),
        ResourceKind.STREAM: frozenset({Action.VIEW, Action.PRODUCE, Action.CONSUME, Action.INSPECT}),
        ResourceKind.GROUP: frozenset({Action.VIEW, Action.CONSUME, Action.OPERATE}),
        ResourceKind.CLUSTER: _VIEW,
    },
}


def role_allows(role: Role, action: Action, kind: ResourceKind) -> bool:
    """Whether a role includes an action on a kind of resource."""
    if action is Action.CONNECT:
        return True
    if kind is ResourceKind.ANYTHING:
        return any(action in actions for actions in ROLE_ACTIONS[role].values())
    return action in ROLE_ACTIONS[role].get(kind, ())


def check_scope(role: Role, resource: Resource, field: str) -> None:
    """Checks that a role means something on a resource; on the mesh each does. Raises `Invalid`.

    `admin` is for the mesh alone: its rights on one stream are `stream-owner`.
    """
    kinds = (ResourceKind.MESH, *(ROLE_ACTIONS[role] if role is not Role.ADMIN else ()))
    if resource.kind not in kinds:
        where = [f"{kind.value}/NAME" for kind in kinds if kind is not ResourceKind.MESH]
        remedy = f"grant it on {' or '.join(dict.fromkeys([*where, 'the whole mesh']))}"
        raise Invalid(f"the role {role.value} cannot be granted on {resource}", field=field, remedy=remedy)
