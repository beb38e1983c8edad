"""Leadership and the directory: keys bound to a session's lease. The leader key's creation revision is the fence."""

from braid.kernel.errors import NotFound, OutcomeUnknown, StoreAccessDenied, StoreUnavailable
from braid.kernel.limits.store import ETCD_RECONNECT_MS_MIN
from braid.kernel.ports import Clock, Endpoint, Fence, Leader
from braid.stores.etcd import keys, requests
from braid.stores.etcd.client import EtcdClient
from braid.stores.etcd.watching import until_deleted
from braid.stores.etcd_wire import etcd_pb2 as wire
from braid.stores.etcd_wire import stored_pb2 as stored
from braid.stores.session import session_over


async def win(client: EtcdClient, clock: Clock, endpoint: Endpoint, lease: int) -> Leader:
    """Waits until this replica leads, however often the store fails meanwhile; the caller ends it with the session.

    A claim that was not answered is not repeated blindly: the next one succeeds only while there is no leader, and
    recognises the lease's own key.

    Raises:
        Fenced: the lease has ended.
        StoreAccessDenied: etcd does not let this process in, or does not allow it.
        StoreUnavailable: the client was closed.
    """
    while True:
        try:
            answer = await client.transact(claim(endpoint, lease))
            if answer.succeeded:
                return Leader(endpoint, Fence(endpoint.service, answer.revision))
            held = answer.one(0)
            if held and held.lease == lease:
                return read_leader(held)
            await until_deleted(client, keys.leader(endpoint.service), answer.revision)
        except NotFound as error:
            raise session_over(f"{lease:x}") from error
        except StoreAccessDenied:
            raise
        except (OutcomeUnknown, StoreUnavailable):
            if client.closed:
                raise
            await clock.sleep(ETCD_RECONNECT_MS_MIN / 1000)


def claim(endpoint: Endpoint, lease: int) -> wire.TxnRequest:
    """Creates the leader key, bound to the lease, if there is none; otherwise reads whose it is."""
    key = keys.leader(endpoint.service)
    return wire.TxnRequest(
        compare=[requests.created_at(key, 0)],
        success=[requests.put(key, store_endpoint(endpoint), lease)],
        failure=[requests.reading(requests.get(key))],
    )


async def resign(client: EtcdClient, leader: Leader) -> None:
    """Deletes the leader key if it is still this leadership's.

    Raises:
        StoreUnavailable: no answer came, and the key was still there when read back.
    """
    key = keys.leader(leader.fence.service)
    request = wire.TxnRequest(compare=[requests.created_at(key, leader.fence.revision)], success=[requests.delete(key)])
    try:
        await client.transact(request)
    except OutcomeUnknown as error:
        now = await find_leader(client, leader.fence.service)
        if now and now.fence == leader.fence:
            raise StoreUnavailable(error.message) from error


async def find_leader(client: EtcdClient, service: str) -> Leader | None:
    """Returns the present leader, read linearizably."""
    kv = (await client.read(requests.get(keys.leader(service)))).one(0)
    return read_leader(kv) if kv else None


def store_endpoint(endpoint: Endpoint) -> bytes:
    """An endpoint as a value."""
    return stored.StoredEndpoint(
        service=endpoint.service,
        instance=endpoint.instance,
        address=endpoint.address,
        tls_address=endpoint.tls_address,
    ).SerializeToString()


def read_endpoint(kv: wire.KeyValue) -> Endpoint:
    """Decodes the endpoint in a value."""
    message = stored.StoredEndpoint.FromString(kv.value)
    return Endpoint(message.service, message.instance, message.address, message.tls_address)


def read_leader(kv: wire.KeyValue) -> Leader:
    """Returns the leader that a leader key names."""
    endpoint = read_endpoint(kv)
    return Leader(endpoint, Fence(endpoint.service, kv.create_revision))
