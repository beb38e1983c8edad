"""The port over which a provider is asked, and its texts made fit to show."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from console.server.limits import PROVIDER_TEXT_MAX


class HttpRequest(NamedTuple):
    """One request to a provider: a GET, or a POST of a form."""

    url: str
    form: Mapping[str, str] | None = None
    basic: tuple[str, str] | None = None


class HttpAnswer(NamedTuple):
    """The whole answer, within bounds."""

    status: int
    body: bytes


class Http(Protocol):
    """Sends requests to the provider."""

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Sends a request, and returns the answer; redirections are answers.

        Raises:
            Unavailable: none comes in time, or it is too large. No secret is in the message.
        """
        ...


def shown_text(value: object) -> str:
    """A provider's text on one line, bounded, without what changes how its surroundings are shown."""
    text = value if isinstance(value, str) else ""
    text = text[: 4 * PROVIDER_TEXT_MAX]
    clean = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return clean if len(clean) <= PROVIDER_TEXT_MAX else f"{clean[: PROVIDER_TEXT_MAX - 1]}…"
