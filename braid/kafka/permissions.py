"""Which ACL a request needs that a broker refused: brokers name the kind of resource alone. No I/O.

After "Operations and resources on protocols" in Kafka's documentation of its authorizer.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

_KINDS: Final = {29: "topic", 30: "group", 31: "cluster"}


class Need(NamedTuple):
    """The permission that a Kafka request needs.

    Attributes:
        operation: On each resource that it names (`Read`).
        topic: One that it names; of several, the one that was refused.
        group: That it names.
        instead: What would do as well, for people.
    """

    operation: str
    topic: str = ""
    group: str = ""
    instead: str = ""

    def missing(self, code: int) -> "MissingAcl | None":
        """Names the permission missing by a broker's refusal; None where the code does not say of which resource."""
        kind = _KINDS.get(code, "")
        name = {"topic": self.topic, "group": self.group, "cluster": "kafka-cluster"}.get(kind, "")
        return MissingAcl(self.operation, kind, name, self.instead) if name else None


class MissingAcl(NamedTuple):
    """An ACL that a client lacks: the operation, the kind and name of the resource, and what would do as well."""

    operation: str
    kind: str
    name: str
    instead: str = ""

    def __str__(self) -> str:
        named = "" if self.kind == "cluster" else f" {self.name}"
        return f"{self.operation} on the {self.kind}{named}" + (f", or {self.instead}" if self.instead else "")

    @property
    def remedy(self) -> str:
        """How to give it."""
        flag = "--cluster" if self.kind == "cluster" else f"--{self.kind} {self.name}"
        given = f"kafka-acls.sh --add --allow-principal User:NAME --operation {self.operation} {flag}"
        return f"{given}; or give all that its role needs: braid acls generate"

    @property
    def metadata(self) -> Mapping[str, str]:
        """For programs."""
        named = {"operation": self.operation, "resource_type": self.kind, "resource": self.name}
        return {"problem": "idempotent_write" if self.operation == "IdempotentWrite" else self.kind, **named}
