"""Chooses the mesh a command talks to, as `braid.connect` does, with errors that name the command's flags."""

from collections.abc import Mapping
from pathlib import Path

from braid.host.endpoints import Choice as Choice
from braid.host.endpoints import Endpoint, resolve


def typed(endpoint: str, context: str) -> Choice:
    """The flags that were typed; an empty one counts as not typed."""
    return Choice(endpoint or None, context)


def find_endpoint(choice: Choice, environment: Mapping[str, str], directory: Path) -> Endpoint:
    """See `braid.host.endpoints.resolve`."""
    return resolve(choice, environment, directory, flags=True)
