"""Sessions as etcd leases: granted, kept alive, revoked. `stores.session` decides when one counts as lost."""

import math

from braid.kernel.errors import NotFound, StoreAccessDenied, StoreUnavailable
from braid.kernel.limits.store import ETCD_REVOKE_SECONDS, ETCD_SESSION_TTL_SECONDS_MIN, KEEP_ALIVES_PER_SESSION
from braid.kernel.ports import Clock
from braid.stores.etcd.client import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE, EtcdClient
from braid.stores.etcd_wire import etcd_pb2 as wire


def name_of(lease: int) -> str:
    """Returns a lease's identity as a session's: hexadecimal, as etcd's own tools print it."""
    return f"{lease:x}"


def lease_of(session: str) -> int:
    """Returns the lease that a session's identity names."""
    return int(session, 16)


async def grant(client: EtcdClient, ttl_seconds: float) -> wire.LeaseGrantResponse:
    """Grants a lease of at least this time. One whose answer is lost expires unused.

    Raises:
        StoreUnavailable: no endpoint answered.
    """
    seconds = max(ETCD_SESSION_TTL_SECONDS_MIN, math.ceil(ttl_seconds))
    return await client.call(LEASE_GRANT, wire.LeaseGrantRequest(ttl_seconds=seconds))


class LeaseKeepAlive:
    """`stores.session.KeepAlive` for the lease of one session."""

    def __init__(self, client: EtcdClient, clock: Clock, ttl_seconds: float) -> None:
        self._client = client
        self._clock = clock
        self._interval_seconds = ttl_seconds / KEEP_ALIVES_PER_SESSION

    async def renew(self, session: str) -> bool:
        """Sends a keep-alive, for one interval on one endpoint after the other. Raises `StoreUnavailable`."""
        lease = lease_of(session)
        give_up = self._clock.elapsed() + self._interval_seconds
        while True:
            try:
                return await self._renew_once(lease)
            except StoreAccessDenied:
                raise
            except StoreUnavailable:
                if self._client.closed or self._clock.elapsed() >= give_up:
                    raise
            await self._clock.sleep(self._interval_seconds / 10)

    async def end(self, session: str) -> None:
        """Revokes the lease; a lease that is gone is fine. Raises `StoreUnavailable`."""
        try:
            await self._client.call(LEASE_REVOKE, wire.LeaseRevokeRequest(id=lease_of(session)), ETCD_REVOKE_SECONDS)
        except NotFound:
            return

    async def _renew_once(self, lease: int) -> bool:
        async with self._client.stream(LEASE_KEEP_ALIVE) as stream:
            await stream.send(wire.LeaseKeepAliveRequest(id=lease))
            answer = await stream.receive(self._interval_seconds)
            if answer is None:
                raise StoreUnavailable("a keep-alive had no answer")
            return answer.ttl_seconds > 0
