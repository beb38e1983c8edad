"""A real etcd that asks for certificates and users, and what tests do to both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from braid.host.store_credentials import StoreCredentials
from braid.host.tls.paths import Tls
from braid.stores.etcd import keys
from braid.stores.etcd.client import EtcdClient, Method
from braid.stores.etcd_wire import etcd_pb2 as wire
from testbed.authority import Authority
from testbed.etcd_process import EtcdCluster, etcd_cluster
from tests.support.planted import credential

USER: Final = "braid"
RELOAD_SECONDS: Final = 0.05

_AUTH: Final = "/etcdserverpb.Auth"
ENABLE: Final = Method(f"{_AUTH}/AuthEnable", wire.AuthEnableRequest, wire.AuthResponse)
ADD_USER: Final = Method(f"{_AUTH}/UserAdd", wire.AuthUserAddRequest, wire.AuthResponse)
CHANGE_PASSWORD: Final = Method(f"{_AUTH}/UserChangePassword", wire.AuthUserChangePasswordRequest, wire.AuthResponse)
GRANT_ROLE: Final = Method(f"{_AUTH}/UserGrantRole", wire.AuthUserGrantRoleRequest, wire.AuthResponse)
ADD_ROLE: Final = Method(f"{_AUTH}/RoleAdd", wire.AuthRoleAddRequest, wire.AuthResponse)
ALLOW: Final = Method(f"{_AUTH}/RoleGrantPermission", wire.AuthRoleGrantPermissionRequest, wire.AuthResponse)
FORBID: Final = Method(f"{_AUTH}/RoleRevokePermission", wire.AuthRoleRevokePermissionRequest, wire.AuthResponse)


def password_file(path: Path, *passwords: str) -> Path:
    """Writes planted passwords of these names, a line each, for the owner alone, whole or not at all."""
    part = path.with_name(f".{path.name}")
    part.touch(mode=0o600)
    part.write_text("".join(f"{credential(each)}\n" for each in passwords))
    part.replace(path)
    return path


def client_files(authority: Authority, directory: Path, name: str = "registry-0") -> Tls:
    """Files of a process of Braid, whose certificate's common name is `name`."""
    uri = f"spiffe://test.local/service/{name}"
    return authority.write(directory, uris=[uri], name=name, reload_seconds=RELOAD_SECONDS)


@asynccontextmanager
async def tls_cluster(directory: Path, size: int = 1) -> AsyncIterator[tuple[EtcdCluster, Authority]]:
    """An etcd with `--client-cert-auth`, whose authority signs its certificate and those of clients."""
    authority = Authority.make("etcd CA")
    credentials = StoreCredentials(client_files(authority, directory / "operator", "root"))
    async with etcd_cluster(directory, size, authority.service(directory / "etcd"), credentials) as cluster:
        yield cluster, authority


async def switch_users_on(client: EtcdClient, password: str) -> None:
    """Does what the guide's etcdctl commands do: a user with a role for Braid's keys alone, then authentication on."""
    await client.call(ADD_USER, wire.AuthUserAddRequest(name="root", password=credential("of the operator")))
    await client.call(ADD_ROLE, wire.AuthRoleAddRequest(name="root"))
    await client.call(GRANT_ROLE, wire.AuthUserGrantRoleRequest(user="root", role="root"))
    await client.call(ADD_USER, wire.AuthUserAddRequest(name=USER, password=credential(password)))
    await client.call(ADD_ROLE, wire.AuthRoleAddRequest(name=USER))
    await allow(client)
    await client.call(GRANT_ROLE, wire.AuthUserGrantRoleRequest(user=USER, role=USER))
    await client.call(ENABLE, wire.AuthEnableRequest())


async def allow(client: EtcdClient) -> None:
    """Gives the role Braid's keys."""
    every = keys.everything()
    permission = wire.Permission(type=wire.Permission.READWRITE, key=every.start, range_end=every.end)
    await client.call(ALLOW, wire.AuthRoleGrantPermissionRequest(name=USER, permission=permission))


async def forbid(client: EtcdClient) -> None:
    """Takes them from it."""
    every = keys.everything()
    await client.call(FORBID, wire.AuthRoleRevokePermissionRequest(role=USER, key=every.start, range_end=every.end))
