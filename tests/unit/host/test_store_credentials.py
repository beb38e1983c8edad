"""Credentials for an event store: found in the environment, whole or refused, never plain text to others."""

from pathlib import Path

import pytest

from braid.host.store_credentials import (
    StoreCredentials,
    environment_of,
    etcd_credentials,
    store_credentials_of_environment,
)
from braid.host.tls.paths import Tls
from braid.kernel.errors import Invalid

OWN = {"BRAID_TLS_CERTIFICATE": "/own.crt", "BRAID_TLS_KEY": "/own.key", "BRAID_TLS_CA": "/own-ca.crt"}
STORES = {
    "BRAID_STORE_TLS_CERTIFICATE": "/store.crt",
    "BRAID_STORE_TLS_KEY": "/store.key",
    "BRAID_STORE_TLS_CA": "/store-ca.crt",
}
USER = {"BRAID_STORE_USER": "braid", "BRAID_STORE_PASSWORD_FILE": "/password"}
TLS = Tls(Path("/store.crt"), Path("/store.key"), Path("/store-ca.crt"))


def test_the_stores_own_files_precede_those_for_all_connections() -> None:
    assert store_credentials_of_environment({}) == StoreCredentials()
    assert store_credentials_of_environment(OWN).tls == Tls(Path("/own.crt"), Path("/own.key"), Path("/own-ca.crt"))
    assert store_credentials_of_environment(OWN | STORES).tls == TLS


def test_variables_name_what_they_are_made_of() -> None:
    credentials = StoreCredentials(TLS, "braid", Path("/password"))
    assert environment_of(credentials) == STORES | USER
    assert store_credentials_of_environment(environment_of(credentials)) == credentials


@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({"BRAID_STORE_USER": "braid"}, "BRAID_STORE_PASSWORD_FILE"),
        ({"BRAID_STORE_PASSWORD_FILE": "/password"}, "BRAID_STORE_USER"),
        ({"BRAID_STORE_TLS_CA": "/ca.crt"}, "BRAID_STORE_TLS_CERTIFICATE"),
    ],
)
def test_a_part_alone_is_refused(environment: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as raised:
        store_credentials_of_environment(environment)
    assert raised.value.field == field


def test_tls_needs_files() -> None:
    for credentials in (None, StoreCredentials()):
        with pytest.raises(Invalid, match="needs the files of mutual TLS") as raised:
            etcd_credentials("etcd+tls", ["etcd:2379"], credentials)
        assert "BRAID_STORE_TLS_CERTIFICATE" in raised.value.remedy


def test_a_password_does_not_leave_the_machine_in_plain_text() -> None:
    credentials = StoreCredentials(TLS, "braid", Path("/password"))
    assert etcd_credentials("etcd+tls", ["etcd:2379"], credentials) == credentials
    with pytest.raises(Invalid, match="would travel to etcd-1:2379 in plain text"):
        etcd_credentials("etcd", ["127.0.0.1:2379", "etcd-1:2379"], credentials)
    here = etcd_credentials("etcd", ["127.0.0.1:2379", "[::1]:2379", "localhost:2379"], credentials)
    assert here == StoreCredentials(None, "braid", Path("/password"))


def test_plain_text_shows_no_certificate() -> None:
    assert etcd_credentials("etcd", ["etcd:2379"], StoreCredentials(TLS)) is None
