"""The types that `describe` asks another service than the registry for; each is loaded when it is asked for."""

from collections.abc import Awaitable, Callable

from braid.cli.core import kinds
from braid.cli.core.output import Format
from braid.cli.core.session import Session

Describe = Callable[[Session, str, Format], Awaitable[int]]


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
