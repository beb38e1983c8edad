"""A call as it is recorded: who asked for what, from where, and how it ended. No I/O.

Its fields are all that is ever recorded; of requests only names of resources are read, and what `commands` lists.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from braid.kernel.limits.access.audit import AUDIT_TEXT_CHARS_MAX

AUDIT: Final = "audit"  # the name in the store under which histories of calls lie


class Outcome(Enum):
    """How a recorded call ended."""

    OK = "ok"
    OPENED = "opened"  # a stream that was let in
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a method.

    Attributes:
        time_ms: When it ended, or a stream was opened; wall clock, milliseconds since the epoch.
        principal: Who called; empty where nobody is named.
        authenticated: Whether the transport has verified the principal; else it is a claim.
        tenant: As the caller says.
        address: Where the caller is, without its port.
        service: The service that was asked; empty, as `rpc` and `resource`, where many calls are counted together.
        rpc: The method's name.
        resource: What the request is about, separated by commas.
        request_id: Names the request over all its attempts.
        outcome: How it ended.
        reason: Why it was refused, or the error's reason.
        command: The command that would do the same; empty where there is none.
    """

    time_ms: int
    principal: str
    authenticated: bool
    tenant: str
    address: str
    service: str
    rpc: str
    resource: str
    request_id: str
    outcome: Outcome
    reason: str = ""
    command: str = ""

    @property
    def owner(self) -> str:
        """The caller it counts against: those that are not verified share one allowance, whatever they claim."""
        return self.principal if self.authenticated else ""

    @property
    def alike(self) -> "Alike":
        """The fields that it shares with its repeats."""
        outcome = (self.outcome, self.reason)
        return Alike(self.principal, self.authenticated, self.address, self.service, self.rpc, self.resource, *outcome)

    def without_details(self) -> "Call":
        """Stands for calls that differ in all but their owner and outcome."""
        principal = self.principal if self.authenticated else ""
        return replace(
            self, principal=principal, address="", service="", rpc="", resource="", request_id="", reason="", command=""
        )


class Alike(NamedTuple):
    """The fields shared by calls that one record counts."""

    principal: str
    authenticated: bool
    address: str
    service: str
    rpc: str
    resource: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class CallRecorded:
    """A record: the last of `count` calls alike, the first of which came at `first_ms`."""

    call: Call
    count: int
    first_ms: int

    @property
    def key(self) -> tuple[Alike, int]:
        """The key by which a later record replaces an earlier one."""
        return self.call.alike, self.first_ms


@dataclass(frozen=True, slots=True)
class CallsLost:
    """Calls of which nothing is recorded but how many they were, and when."""

    count: int
    first_ms: int
    last_ms: int


AuditRecord = CallRecorded | CallsLost


def host_of(peer: str) -> str:
    """The address of a peer without its port: `10.0.0.7` of `ipv4:10.0.0.7:4711`; as it is where it has none."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return shown(peer)
    return shown(rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]"))


def shown(text: str) -> str:
    """Text that a caller sent, as it is recorded: printable, and cut short."""
    cut = text[:AUDIT_TEXT_CHARS_MAX]
    return cut if cut.isprintable() else "".join(each if each.isprintable() else "?" for each in cut)
