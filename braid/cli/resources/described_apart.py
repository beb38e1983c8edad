"""The types that `describe` and `get` ask another service than the registry for; each is loaded when asked for."""

from collections.abc import Awaitable, Callable

from braid.cli.core import kinds
from braid.cli.core.output import Format
from braid.cli.core.session import Session

Describe = Callable[[Session, str, Format], Awaitable[int]]
List = Callable[[Session, kinds.Scope, Format], Awaitable[int]]


def describer(kind: kinds.Kind) -> Describe | None:
    """Returns the function that prints one object of a type in full; None for types that `describe` itself knows."""
    if kind is kinds.DEADLETTER:
        from braid.cli.resources.dlq.dead_letters import describe_letter

        return describe_letter
    if kind is kinds.REPLAY:
        from braid.cli.resources.dlq.replays import describe_replay

        return describe_replay
    if kind is kinds.ALERT:
        from braid.cli.resources.alerts.listing import describe_alert

        return describe_alert
    return None


def lister(kind: kinds.Kind) -> List | None:
    """Returns the function that lists a type once and says more than its rows; None for types that have none."""
    if kind is kinds.DEADLETTER:
        from braid.cli.resources.dlq.dead_letters import get_letters

        return get_letters
    if kind is kinds.PATHWAY:
        from braid.cli.resources.pathways.listing import get_pathways

        return get_pathways
    return None
