"""The words of `braid can-i`: a verb and a kind as a row of the table. Verbs are those of methods, and the actions."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from braid.kernel.access.requests import Need
from braid.kernel.access.roles import ANYTHING, GRANTABLE, MESH, Action, Resource, ResourceKind
from braid.kernel.access.table import TABLE, Row
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name

_ALL: Final = "*"


class Question(NamedTuple):
    """An intended action, as typed: `move`, `stream`, `logs`."""

    verb: str
    kind: str
    name: str


def need_of(question: Question) -> Need:
    """The action and the resource that a question is about.

    Args:
        question: A verb of the command line or an action, a kind of resource, and a name; an empty name or `*` is all
            of the kind.

    Raises:
        Invalid: no method has the verb for that kind; the field is `verb`, `kind` or `name`.
    """
    verb, kind, name = question.verb.lower(), question.kind.lower(), question.name
    if kind in ("", ResourceKind.MESH.value):
        return Need(_action(verb, kind or "mesh"), MESH)
    row = _row(verb, kind)
    if row is not None:
        named = row.names[0] if row.names else None
        if named is None or not name:
            return Need(row.action, row.unnamed)
        return Need(row.action, _resource(named.kind, name.partition("/")[0] if named.part else name))
    known = next((each for each in GRANTABLE if each.value == kind), None)
    if known is None:
        words = ", ".join(each.value for each in GRANTABLE)
        raise Invalid(
            f"nobody can {verb!r} a {kind!r}", field="kind", remedy=f"the kinds are {words}, and those of verbs"
        )
    return Need(_action(verb, kind), _resource(known, name or _ALL))


def method_of(question: Question) -> str:
    """The method that a question is about, as `DeleteStream`; empty for an action, as `consume`."""
    return next((name for name, _ in _methods(question.verb.lower(), question.kind.lower())), "")


def _row(verb: str, kind: str) -> Row | None:
    return next((row for _, row in _methods(verb, kind)), None)


def _methods(verb: str, kind: str) -> Iterator[tuple[str, Row]]:
    """Methods `<Verb><Kind>` with their rows, except those for services alone."""
    method = f"{verb}{kind}".replace("-", "").lower()
    for rows in TABLE.values():
        for name, row in rows.items():
            if name.lower() in (method, f"{method}s") and row.action is not Action.SERVE:
                yield name, row


def _action(verb: str, kind: str) -> Action:
    for action in Action:
        if action.value == verb:
            return action
    actions = ", ".join(sorted({*(action.value for action in Action), *_verbs(kind)}))
    raise Invalid(f"{verb!r} is no verb for a {kind}", field="verb", remedy=f"use one of {actions}")


def _verbs(kind: str) -> Iterator[str]:
    suffix = kind.replace("-", "").lower()
    for rows in TABLE.values():
        for name, row in rows.items():
            if name.lower().endswith(suffix) and row.action is not Action.SERVE:
                yield name[: -len(suffix)].lower()


def _resource(kind: ResourceKind, name: str) -> Resource:
    if kind is ResourceKind.REPLAY:
        return MESH
    if kind is ResourceKind.ANYTHING:
        return ANYTHING
    if name != _ALL:
        check_name(name.removesuffix(_ALL), "name")
    return Resource(kind, name)
