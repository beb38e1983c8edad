"""Prints Kafka ACLs as commands of Kafka's own tool, and as documents. No I/O."""

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from braid.kernel.ports import Acl

if TYPE_CHECKING:
    from braid.cli.core.documents import Document

BOOTSTRAP: Final = "HOST:PORT"  # stands for an address that nobody named
_FLAGS: Final = {"Topic": "--topic", "Group": "--group"}


def acl_commands(principal: str, acls: Sequence[Acl], bootstrap: str) -> str:
    """Commands of `kafka-acls.sh`, one per resource, each below a comment with its reasons."""
    lines = []
    for (resource, name, pattern), found in groupby(acls, key=lambda acl: acl[:3]):
        given = list(found)
        lines += [f"# {acl.operation}: {acl.reason}" for acl in given]
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", principal]
        words += [word for acl in given for word in ("--operation", acl.operation)]
        words += [_FLAGS[resource], name] if resource in _FLAGS else ["--cluster"]
        words += ["--resource-pattern-type", "prefixed"] if pattern == "Prefixed" else []
        lines.append(shlex.join(words))
    return "\n".join(lines)


def acl_documents(principal: str, acls: Sequence[Acl]) -> "list[Document]":
    """Each ACL as plain values, in Kafka's terms."""
    return [
        {
            "principal": principal,
            "host": "*",
            "permission_type": "Allow",
            "operation": acl.operation,
            "resource_type": acl.resource,
            "resource_name": acl.name,
            "pattern_type": acl.pattern,
            "reason": acl.reason,
        }
        for acl in acls
    ]
