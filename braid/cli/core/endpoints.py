"""Which mesh a command talks to: resolved as `braid.connect` does, with errors that name the command's flags."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from braid.host import endpoints
from braid.host.endpoints import Endpoint


class Choice(NamedTuple):
    """What was typed: at most one of the two."""

    endpoint: str = ""
    context: str = ""


def find_endpoint(choice: Choice, environment: Mapping[str, str], directory: Path) -> Endpoint:
    """See `braid.host.endpoints.resolve`; a flag that is empty was not typed."""
    named = endpoints.Choice(choice.endpoint or None, choice.context)
    return endpoints.resolve(named, environment, directory, flags=True)
