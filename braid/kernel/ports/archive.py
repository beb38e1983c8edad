"""The port to the place of archived objects: a directory, a bucket, memory or another replica."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ArchivedObject(NamedTuple):
    """An archived object as a listing shows it."""

    name: str
    size_bytes: int


class ArchiveStore(Protocol):
    """A store of immutable objects by name. Every method may raise `Unavailable`."""

    @property
    def shared(self) -> bool:
        """Whether all replicas of a service see the same objects, so that the leader alone writes and deletes them."""
        ...

    async def list(self, prefix: str) -> Sequence[ArchivedObject]:
        """Lists objects by name. The prefix of the names ends with `/`, or is empty."""
        ...

    async def get(self, name: str) -> bytes:
        """An object's bytes.

        Raises:
            NotFound: there is none of that name.
        """
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Keeps an object; it is durable when this returns, and never seen in part. One of that name is replaced.

        Raises:
            Unavailable: it is not kept, or may be.
        """
        ...

    async def delete(self, name: str) -> None:
        """Removes an object; one that is not there changes nothing."""
        ...

    async def close(self) -> None:
        """Frees the store's connections and files."""
        ...
