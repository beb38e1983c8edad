"""Alerts about certificates of whole meshes on virtual time: what replicas say of theirs reaches who is on call."""

from unittest.mock import AsyncMock

import pytest

from braid.api.lagmon.v1 import alert_pb2
from braid.api.mesh.v1 import endpoint_pb2 as pb
from braid.host.tls.faults import SERVER_EXPIRED
from braid.kernel.errors import Unavailable
from braid.kernel.limits.lagmon.alerts import ALERT_CERTIFICATES_SECONDS, ALERT_PAST_WAIT_SECONDS
from braid.kernel.ports import RpcChannel
from braid.kernel.timing.days import DAY_MS
from braid.rpc.memory.transport import MemoryTransport
from services.lagmon.alerts import certificate_peers
from services.lagmon.alerts.codec import ALERTS
from services.lagmon.servicer.service import Lagmon
from tests.unit.lagmon.mesh import Mesh
from tests.unit.lagmon.scenarios.test_alerts import FIRING, alerts, play, settled, told, until

PAGE = "certificate/registry-0/certificate-page"
TICKET = "certificate/registry-0/certificate-ticket"
RESOLVED = alert_pb2.ALERT_STATE_RESOLVED
LOOK_SECONDS = 15.0


def use(mesh: Mesh, *days: float, instance: str = "registry-0") -> None:
    """Lets a replica use a certificate that ends in so many days, or none."""
    now_ms = mesh.clock.now_ms()
    ends = [now_ms + round(each * DAY_MS) for each in days]
    own = pb.CERTIFICATE_USE_REPLICA
    times = [pb.CertificateValidity(use=own, begin_time_ms=each - 365 * DAY_MS, end_time_ms=each) for each in ends]
    mesh.replicas[instance].certificates = lambda: times


def test_a_certificate_is_told_once_renewed_and_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_peers, "ALERT_CERTIFICATES_SECONDS", LOOK_SECONDS)  # less time is played

    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        await mesh.clock.sleep(2 * LOOK_SECONDS)
        assert await alerts(mesh, first) == {}  # a plain mesh
        use(mesh, 20)
        await until(mesh, TICKET, FIRING, 2 * LOOK_SECONDS + ALERT_PAST_WAIT_SECONDS, first)
        alert = (await alerts(mesh, first))[TICKET]
        assert alert.certificate == "registry-0"
        assert "ends in 20.0 days" in alert.summary
        assert (alert.command, alert.runbook) == ("braid doctor", "docs/runbooks/certificate-ticket.md")
        use(mesh, 2)
        await until(mesh, PAGE, FIRING, 2 * LOOK_SECONDS + ALERT_PAST_WAIT_SECONDS, first)
        assert set(await alerts(mesh, first)) == {PAGE, TICKET}
        use(mesh, 365)
        await until(mesh, PAGE, RESOLVED, LOOK_SECONDS + 10, first)
        assert await told(mesh) == [("fired", TICKET), ("fired", PAGE), ("resolved", PAGE), ("resolved", TICKET)]
        codec, state = ALERTS.codec, mesh.replicas[first].aggregates.state(ALERTS, "mesh")
        assert codec.decode_state(codec.encode_state(state)) == state

    play(scene)


def test_a_certificate_goes_on_to_end_while_its_replica_is_away() -> None:
    async def scene(mesh: Mesh) -> None:
        await settled(mesh)
        use(mesh, 3 + 120 / 86_400)  # a page in two minutes
        await mesh.clock.sleep(ALERT_CERTIFICATES_SECONDS)
        for name in ("lagmon-0", "lagmon-1"):
            mesh.network.cut("registry-0", name)
        await until(mesh, PAGE, FIRING, 120 + ALERT_CERTIFICATES_SECONDS)
        mesh.processes["lagmon-0"].kill()
        await mesh.serve("lagmon-1", Lagmon(mesh.kafka.process()))
        await mesh.clock.sleep(120)  # it never hears the registry-0, which the directory still names
        assert await told(mesh, "lagmon-1") == [("fired", TICKET), ("fired", PAGE)]

    play(scene, lagmons=1)


class ExpiredServer(MemoryTransport):
    """A transport that finds one server's certificate expired, as a handshake does."""

    def channel(self, address: str, tls_address: str = "") -> RpcChannel:
        """See `RpcTransport`."""
        found = super().channel(address, tls_address)
        if address.startswith("registry-0"):
            error = Unavailable(f"{address}: no connection ({SERVER_EXPIRED})")
            setattr(found, "unary", AsyncMock(side_effect=error))  # noqa: B010 - mypy has no name for it
        return found


def test_a_replica_that_was_never_heard_and_has_expired_pages() -> None:
    async def scene(mesh: Mesh) -> None:
        first = await settled(mesh)
        mesh.replicas[first].transport = ExpiredServer(mesh.network, first)
        await until(mesh, PAGE, FIRING, 2 * ALERT_CERTIFICATES_SECONDS + 10, first)
        alert = (await alerts(mesh, first))[PAGE]
        assert alert.summary == "the certificate of registry-0 has expired: nobody can open a connection to it"

    play(scene, lagmons=1)
