"""Asks every replica of the mesh when its certificates end. The last answers stay."""

import asyncio
from collections.abc import Mapping

from braid.api.mesh.v1 import endpoint_pb2 as pb
from braid.host.tls.faults import SERVER_EXPIRED
from braid.kernel.errors import BraidError
from braid.kernel.limits.lagmon.alerts import (
    ALERT_CERTIFICATES_ASKED,
    ALERT_CERTIFICATES_MAX,
    ALERT_CERTIFICATES_SECONDS,
)
from braid.kernel.limits.runtime import CLOCK_ASK_SECONDS
from braid.kernel.ports import CallOptions
from braid.rpc.directory import KnownEndpoint
from braid.rpc.methods import method_path
from braid.runtime.replica import Replica
from services.lagmon.alerts.decisions.certificates import EXPIRED, Certificates, ReplicaCertificates, ValidTime
from services.lagmon.listing import ask_every


class CertificatePeers:
    """The certificates of all replicas, as each of them last said."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._certificates = Certificates()
        self._heard = False

    @property
    def readings(self) -> Mapping[str, ReplicaCertificates | None] | None:
        """Each replica's last answer, None for one that never answered; None in all before the first look."""
        return self._certificates.readings if self._heard else None

    async def run(self) -> None:
        """Asks until cancelled."""
        await ask_every(self._replica.host, ALERT_CERTIFICATES_SECONDS, self._look)

    async def _look(self) -> None:
        listed = (await self._replica.endpoints())[:ALERT_CERTIFICATES_MAX]
        room = asyncio.Semaphore(ALERT_CERTIFICATES_ASKED)
        answers = await asyncio.gather(*(self._ask(each, room) for each in listed))
        found = {each.instance: answer for each, answer in zip(listed, answers, strict=True) if answer is not None}
        if listed:
            self._certificates.observe([each.instance for each in listed], found, self._replica.host.clock.elapsed())
            self._heard = True

    async def _ask(self, known: KnownEndpoint, room: asyncio.Semaphore) -> ReplicaCertificates | None:
        """Asks one replica, over a connection of its own: an old one would hide that its certificate has expired."""
        async with room:
            channel = self._replica.transport.channel(known.address, known.tls_address)
            try:
                path = method_path(known.service, "ListEndpoints")
                options = CallOptions(CLOCK_ASK_SECONDS)
                answer = await channel.unary(path, pb.ListEndpointsRequest(), pb.ListEndpointsResponse, options)
            except BraidError as error:
                return EXPIRED if SERVER_EXPIRED in error.message else None
            finally:
                await channel.close()
        return replica_certificates(answer)


def replica_certificates(answer: pb.ListEndpointsResponse) -> ReplicaCertificates:
    """Reads what a replica says of its certificates; a use that this release does not know is left out."""
    times = {each.use: ValidTime(each.begin_time_ms, each.end_time_ms) for each in answer.certificates}
    return ReplicaCertificates(
        own=times.get(pb.CERTIFICATE_USE_REPLICA),
        authority=times.get(pb.CERTIFICATE_USE_AUTHORITY),
        store=times.get(pb.CERTIFICATE_USE_STORE),
    )
