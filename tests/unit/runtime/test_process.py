"""A service process applies its settings."""

from datetime import timedelta
from pathlib import Path

import pytest

from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_METRICS, PLAINTEXT_STORE
from braid.runtime.process import (
    measure_store_certificate,
    plaintext_of,
    reaches_plain_store_beyond_this_machine,
    serves_plaintext_beyond_this_machine,
)
from braid.runtime.settings import Settings
from braid.runtime.telemetry import make_metrics
from testbed.authority import Authority

FILES = {"tls_certificate": "/a.crt", "tls_key": "/a.key", "tls_ca": "/ca.crt"}


@pytest.mark.parametrize(
    ("listen", "fields", "exposed"),
    [
        ("127.0.0.1:0", {}, False),
        ("[::1]:0", {}, False),
        ("localhost:0", {}, False),
        ("0.0.0.0:7401", {"tls_mode": "off"}, True),
        ("registry-0:7401", {"tls_mode": "off"}, True),
        ("0.0.0.0:7401", {**FILES, "access": "open"}, False),
        ("0.0.0.0:7401", {**FILES, "access": "open", "tls_mode": "permissive"}, True),
        ("0.0.0.0:7401", {**FILES, "tls_mode": "off"}, True),
    ],
)
def test_plaintext_for_other_machines_is_recognised(listen: str, fields: dict[str, str], exposed: bool) -> None:
    settings = Settings.model_validate({"store": "sqlite:///x", "instance": "registry-0", "listen": listen, **fields})
    assert serves_plaintext_beyond_this_machine(settings) is exposed


@pytest.mark.parametrize(
    ("store", "exposed"),
    [
        ("sqlite:///var/lib/braid/store.db", False),
        ("etcd+tls://10.0.0.1:2379", False),
        ("etcd://127.0.0.1:2379,[::1]:2379,localhost:2379/", False),
        ("etcd://127.0.0.1:2379,10.0.0.1:2379", True),
        ("etcd://etcd-0:2379", True),
    ],
)
def test_a_plain_store_on_another_machine_is_recognised(store: str, exposed: bool) -> None:
    settings = Settings.model_validate({"store": store, "instance": "registry-0"})
    assert reaches_plain_store_beyond_this_machine(settings) is exposed


def test_a_replica_says_what_others_see_in_plain_text() -> None:
    fields = {"store": "etcd://etcd-0:2379", "instance": "registry-0"}
    assert plaintext_of(Settings.model_validate(fields)) == [PLAINTEXT_STORE]
    exposed = plaintext_of(Settings.model_validate({**fields, "metrics": "0.0.0.0:7501"}))
    assert exposed == [PLAINTEXT_STORE, PLAINTEXT_METRICS]
    assert plaintext_of(Settings.model_validate({**fields, "store": "sqlite:///x"})) == []


@pytest.mark.parametrize(
    ("store", "separate", "measured"),
    [("etcd+tls", True, True), ("etcd+tls", False, False), ("etcd", True, False), ("sqlite", True, False)],
)
def test_the_end_of_a_store_only_certificate_is_measured(
    store: str, separate: bool, measured: bool, tmp_path: Path
) -> None:
    own = Authority.make().service(tmp_path / "own")
    other = Authority.make("store").write(tmp_path / "store", name="registry-0", lifetime=timedelta(days=9))
    fields = {"tls_certificate": own.certificate, "tls_key": own.key, "tls_ca": own.ca}
    if separate:
        fields |= {"store_tls_certificate": other.certificate, "store_tls_key": other.key, "store_tls_ca": other.ca}
    url = {"store": f"{store}:///127.0.0.1:2379", "instance": "registry-0"}
    metrics = make_metrics("registry", "registry-0")
    files = measure_store_certificate(Settings.model_validate({**url, **fields}), metrics)
    value = metrics.registry.get_sample_value("braid_store_tls_certificate_expiry_seconds")
    assert (files is not None) is measured
    assert (value is not None) is measured
    if value is not None:
        assert 8 * 86_400 < value < 9 * 86_400 + 1
