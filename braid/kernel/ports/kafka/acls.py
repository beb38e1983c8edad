"""A Kafka permission (KIP-11, KIP-290)."""

from typing import NamedTuple


class Acl(NamedTuple):
    """One permission on one resource, as Kafka's tools name them.

    Attributes:
        resource: `Topic`, `Group` or `Cluster`.
        name: Of the resource, or the beginning of names.
        pattern: `Literal` or `Prefixed`.
        operation: `Read`, `Write`, `Create`, …
        reason: What needs it, for people.
    """

    resource: str
    name: str
    pattern: str
    operation: str
    reason: str
