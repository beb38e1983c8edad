"""The identities of all processes of a run, and a caller who claims those of others."""

from collections.abc import Callable
from typing import Final

from braid.api.assigner.v1 import join_pb2
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from braid.kernel.errors import Unauthenticated, Unavailable
from braid.kernel.ports import CallOptions
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.tokens import MemoryTokens
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import method_path
from testbed.checkers import facts
from tests.simulation.false_reports import FalseReporter
from tests.simulation.journal import Journal
from tests.support.virtual_time import VirtualProcess

HOSTILE: Final = "mallory-0"
_PAUSE_SECONDS: Final = 0.5
_CALL_SECONDS: Final = 2.0
_TOKEN_SECONDS: Final = -20.0  # with the leeway it counts for ten seconds


def identity_of(name: str, services: tuple[str, ...]) -> str:
    """The principal of a process's certificate."""
    kind = "service" if name in services else "app"
    return f"spiffe://simulation.local/{kind}/{name}"


def fresh_token(tokens: MemoryTokens, name: str) -> Callable[[], str]:
    """Returns a source of tokens that are valid for a while, as a file does that somebody renews."""
    issued: list[tuple[float, str]] = []

    def bearer() -> str:
        now = tokens.now()
        if not issued or now >= issued[-1][0]:
            issued[:] = [(now + 5.0, tokens.issue(name, _TOKEN_SECONDS))]
        return issued[-1][1]

    return bearer


class Liar:
    """Calls every replica in turn, in each name that it knows, with proofs that are not that name's."""

    def __init__(
        self,
        process: VirtualProcess,
        network: MemoryNetwork,
        journal: Journal,
        tokens: MemoryTokens,
        addresses: tuple[str, ...],
        victims: tuple[str, ...],
        stream: str,
    ) -> None:
        self._process = process
        self._network = network
        self._journal = journal
        self._tokens = tokens
        self._addresses = addresses
        self._victims = victims
        self._reporter = FalseReporter(process, journal, stream)

    async def run(self) -> None:
        """Goes on for ever."""
        own, number = identity_of(HOSTILE, ()), 0
        while True:
            await self._process.host.clock.sleep(_PAUSE_SECONDS)
            victim = self._victims[number % len(self._victims)]
            address = self._addresses[number % len(self._addresses)]
            number += 1
            certified = MemoryTransport(self._network, HOSTILE, own, claims=victim)
            signed = MemoryTransport(self._network, HOSTILE, bearer=self._bearer(HOSTILE, 60.0), claims=victim)
            stale = MemoryTransport(self._network, HOSTILE, bearer=self._bearer(victim, -60.0))
            forged = MemoryTransport(self._network, HOSTILE, bearer=lambda: "memory.forged.token")
            if address.startswith("registry"):
                await self._reporter.report(MemoryTransport(self._network, HOSTILE, own), address)
            for transport, proved in ((certified, own), (signed, f"jwt:{HOSTILE}"), (stale, ""), (forged, "")):
                for ask in (self._lists, self._joins):
                    answered = await ask(transport, address)
                    if answered is not None:
                        self._journal.note(facts.FalselyCalled(proved, victim, answered))

    def _bearer(self, name: str, seconds: float) -> Callable[[], str]:
        return lambda: self._tokens.issue(name, seconds)

    async def _lists(self, transport: MemoryTransport, address: str) -> bool | None:
        """Whether a call was answered; None when nobody was there to do so."""
        channel, service = transport.channel(address), address.partition("-")[0]
        try:
            path, options = method_path(service, "ListEndpoints"), CallOptions(_CALL_SECONDS)
            await channel.unary(path, ListEndpointsRequest(), ListEndpointsResponse, options)
        except Unauthenticated:
            return False
        except Exception:  # noqa: BLE001 - whatever a fault makes of a call, it was not answered
            return None
        finally:
            await channel.close()
        return True

    async def _joins(self, transport: MemoryTransport, address: str) -> bool | None:
        """Whether a stream heard anything but a refusal."""
        if not address.startswith("assigner"):
            return None
        channel = transport.channel(address)
        call = channel.duplex(method_path("assigner", "Join"), join_pb2.JoinResponse, CallOptions(_CALL_SECONDS))
        try:
            await call.send(join_pb2.JoinRequest(hello=join_pb2.MemberHello(protocol_version=1, group="none")))
            await call.receive()
        except Unauthenticated:
            return False
        except Unavailable:
            return None
        except Exception:  # noqa: BLE001 - a handler that answers with its own error has taken the caller for somebody
            return True
        finally:
            await channel.close()
        return True
