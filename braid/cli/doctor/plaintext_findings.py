"""`doctor`'s findings on plaintext, where anybody who reaches a port may call everything. Pure."""

from collections.abc import Sequence
from ipaddress import ip_address

from braid.cli.doctor.findings import Finding, Level
from braid.rpc.directory import KnownEndpoint

_NAME = "services"
_CHECK = "tls"
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
        message = f"{_listed(plain)} serve plain text beside mutual TLS: whoever reaches them may call everything"
        remedy = "once all clients have certificates, set BRAID_TLS_MODE=required"
        return [Finding(_NAME, _CHECK, Level.WARN, message, remedy)]
    if all(_is_loopback(each.address) for each in plain):
        message = f"{_listed(plain)} serve plain text: every user and program of this machine may call everything"
        return [Finding(_NAME, _CHECK, Level.WARN, message, _LOCAL_REMEDY)]
    message = f"{_listed(plain)} serve plain text: whoever reaches them may call everything, in any name"
    remedy = "give services certificates: docs/guides/certificates.md; until then keep them on a private network"
    return [Finding(_NAME, _CHECK, Level.WARN, message, remedy)]


def _listed(replicas: Sequence[KnownEndpoint]) -> str:
    return ", ".join(sorted(each.instance for each in replicas))


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
