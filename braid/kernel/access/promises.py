"""Requests that a quota let through and that are not recorded yet. Pure.

A quota is about all that a tenant has, a history about one thing. So what a request under way will add is counted as
if it were recorded, until it is or has failed.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


class Promises(Generic[P]):
    """The promises to one replica's requests under way, by tenant; alike ones are counted once."""

    def __init__(self) -> None:
        self._made: dict[str, Counter[P]] = {}

    @contextmanager
    def made(self, tenant: str, promise: P) -> Iterator[None]:
        """Makes a promise to a tenant, until the block ends."""
        mine = self._made.setdefault(tenant, Counter())
        mine[promise] += 1
        try:
            yield
        finally:
            mine[promise] -= 1
            if not mine[promise]:
                del mine[promise]
            if not mine and self._made.get(tenant) is mine:
                del self._made[tenant]

    def of(self, tenant: str) -> frozenset[P]:
        """The promises made to a tenant."""
        return frozenset(self._made.get(tenant, ()))

    def tenants(self) -> frozenset[str]:
        """Tenants with promises."""
        return frozenset(self._made)
