"""Generates the page of access from the deciding table: roles, and what each method requires."""

from pathlib import Path
from typing import Final

from braid.kernel.access.roles import GRANTABLE, ROLE_ACTIONS, Action, Resource, ResourceKind
from braid.kernel.access.table import TABLE, Named, Row
from tools.reference_text import code, page, table

_ACCESS: Final = """What a method takes where access is enforced: an action on each resource that its request names. A
request that names none is about what the last column says; `*` is all of a kind. The guide to rights tells the rest."""


def access_page(root: Path) -> str:
    """The page of access, from this process's own table whatever `root` is."""
    roles = [
        (code(role.value), *(_actions(actions.get(kind, frozenset())) for kind in GRANTABLE))
        for role, actions in ROLE_ACTIONS.items()
    ]
    parts = ["## Roles\n", table(("role", *(f"on {kind.value}" for kind in GRANTABLE)), roles)]
    for service, rows in TABLE.items():
        methods = [(code(name), row.action.value, _named(row), _unnamed(row)) for name, row in rows.items()]
        parts += [f"## {service}\n", table(("method", "action", "named by", "else about"), methods)]
    return page("Access", _ACCESS, parts)


def _actions(actions: frozenset[Action]) -> str:
    return ", ".join(action.value for action in Action if action in actions)


def _named(row: Row) -> str:
    texts = [_field(each) for each in row.names]
    if row.streams_of_group:
        texts.append("registered streams of the group")
    if row.lanes:
        texts.append(f"`consume` where {code(row.lanes)} is `dlq` alone")
    if row.own:
        texts.append(f"nothing where {code(row.own)} is the caller")
    return "; ".join(texts)


def _field(named: Named) -> str:
    kind = "its history" if named.history else named.kind.value
    action = f", {named.action.value}" if named.action is not None else ""
    return f"{code(named.field)} ({kind}{action})"


def _unnamed(row: Row) -> str:
    if row.action is Action.CONNECT:
        return "everybody who is authenticated"
    resource: Resource = row.unnamed
    return "any resource" if resource.kind is ResourceKind.ANYTHING else code(str(resource))
