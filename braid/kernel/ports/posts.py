"""The port to HTTP servers outside of the mesh that take posts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Post:
    """A POST request to a server outside of the mesh.

    Attributes:
        ca_file: Authorities that sign the server's certificate; empty for the system's.
        token_file: A file with a bearer token to show; empty for none.
    """

    url: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    ca_file: str = ""
    token_file: str = ""


class PostAnswer(NamedTuple):
    """A server's answer, of which the body is never read.

    Attributes:
        retry_after: The header of that name, as it came; empty if there was none.
    """

    status: int
    retry_after: str = ""


class Posts(Protocol):
    """Sends posts, follows no redirection and uses no proxy."""

    async def post(self, post: Post, seconds: float) -> PostAnswer:
        """Sends a post and returns the answer. Raises `Unavailable`, without the URL, if none comes within the time."""
        ...

    async def secrets(self, path: str) -> Sequence[str]:
        """Reads the lines of a file with secrets, which may change. Raises `Unavailable`, without its content."""
        ...
