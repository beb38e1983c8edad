"""`doctor`'s findings on plaintext, where anybody who reaches a port may call everything. Pure."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_METRICS, PLAINTEXT_STORE
from braid.cli.doctor.findings import Finding, Level, ReplicaFacts
from braid.rpc.directory import KnownEndpoint

_NAME = "services"
_CHECK = "tls"
_CONNECTIONS: Final[Mapping[int, tuple[str, str, str]]] = {
    PLAINTEXT_STORE: (
        "store",
        "reach etcd on other machines in plain text: a program that listens or writes there may decide everything",
        "write etcd+tls:// into BRAID_STORE, and give etcd a CA of its own: docs/guides/securing-etcd.md",
    ),
    PLAINTEXT_METRICS: (
        "metrics",
        "serve metrics to other machines in plain text: names of streams, groups and clusters are in them",
        "set BRAID_METRICS_TLS=server (or mutual), or BRAID_METRICS to an address of 127.0.0.1",
    ),
}
_LOCAL_REMEDY = (
    "a mesh of `braid dev`: braid dev down, then braid dev --detach; "
    "another one: give services certificates, docs/guides/certificates.md"
)


def check_plaintext(replicas: Sequence[KnownEndpoint]) -> list[Finding]:
    """One finding about all replicas: mutual TLS alone, or plain text on this machine, or plain text beyond it.

    Plain text on this machine is what `braid dev --insecure` serves.
    """
    plain = [each for each in replicas if each.tls_address != each.address]
    if not replicas:
        return []
    if not plain:
        return [Finding(_NAME, _CHECK, Level.OK, "mutual TLS alone")]
    both = [each.instance for each in plain if each.tls_address]
    if len(both) == len(plain):
        message = (
            f"{_listed(plain)} serve plain text beside mutual TLS: every program that reaches them may call everything"
        )
        remedy = "once all clients have certificates, set BRAID_TLS_MODE=required"
        return [Finding(_NAME, _CHECK, Level.WARN, message, remedy)]
    if all(_is_loopback(each.address) for each in plain):
        message = f"{_listed(plain)} serve plain text: every user and program of this machine may call everything"
        return [Finding(_NAME, _CHECK, Level.WARN, message, _LOCAL_REMEDY)]
    message = f"{_listed(plain)} serve plain text: every program that reaches them may call everything, in any name"
    remedy = "give services certificates: docs/guides/certificates.md; until then keep them on a private network"
    return [Finding(_NAME, _CHECK, Level.WARN, message, remedy)]


def check_plain_connections(replicas: Sequence[ReplicaFacts]) -> list[Finding]:
    """One finding for the store and one for metrics, where replicas say that other machines see them in plain text."""
    found = []
    for kind, (check, message, remedy) in _CONNECTIONS.items():
        if plain := [each for each in replicas if kind in each.plaintext]:
            found.append(Finding(_NAME, check, Level.WARN, f"{_listed(plain)} {message}", remedy))
    return found


def _listed(replicas: Sequence[KnownEndpoint | ReplicaFacts]) -> str:
    return ", ".join(sorted(each.instance for each in replicas))


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
