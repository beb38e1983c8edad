"""Command lines as they are typed: a type and a name in one word, and types left out. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from braid.cli.core.kinds import CHANNEL, CLUSTER, GROUP, LEASE, MEMBER, STREAM, Kind, is_kind
from braid.kernel.errors import Invalid

_SEVERAL_TYPES: Final = frozenset({"get", "describe", "delete"})
# Verbs that take one type alone, which is typed all the same: another may come.
_ONE_TYPE: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("cordon", "uncordon", "decommission"), CLUSTER),
    **dict.fromkeys(("freeze", "unfreeze", "reset", "resume"), GROUP),
    **dict.fromkeys(("drain", "undrain", "ban", "unban"), MEMBER),
    **dict.fromkeys(("pin", "unpin", "why"), LEASE),
    **dict.fromkeys(("close", "release"), CHANNEL),
    "move": STREAM,
}


def typed_apart(arguments: Sequence[str]) -> list[str]:
    """Splits `stream/logs` behind a verb, as `-o name` prints it, into a type and a name.

    Raises:
        Invalid: the verb takes one type, and it was left out.
    """
    verb, *rest = arguments
    if not rest or rest[0].startswith("-") or (verb not in _ONE_TYPE and verb not in _SEVERAL_TYPES):
        return [verb, *rest]
    kind, _, name = rest[0].partition("/")
    if name and is_kind(kind):
        return [verb, kind, name, *rest[1:]]
    alone = len(rest) == 1 or rest[1].startswith("-")
    if alone and verb in _ONE_TYPE and not is_kind(rest[0]):
        meant = f"braid {verb} {_ONE_TYPE[verb].singular} {rest[0]}"
        raise Invalid(f"`braid {verb}` takes a type and a name", field="TYPE", remedy=f"did you mean `{meant}`?")
    return [verb, *rest]
