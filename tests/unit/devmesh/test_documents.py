"""The ready file and the status have exactly the fields that scripts rely on."""

import json
from dataclasses import replace
from pathlib import Path

from braid.host.tls.paths import Tls
from devmesh.documents import (
    BrokerAddress,
    ClusterAddress,
    MeshStatus,
    ProcessStatus,
    Ready,
    ServiceAddress,
    ready_from_json,
    status_from_json,
)

READY = Ready(
    endpoint="127.0.0.1:7401",
    console="",
    store="sqlite",
    dir="/d",
    services={"registry-0": ServiceAddress(1, "127.0.0.1:7401", "http://127.0.0.1:1/metrics")},
    clusters={
        "east": ClusterAddress(None, "127.0.0.1:19192", "a", {"east": BrokerAddress(None, "127.0.0.1:19192", "a")})
    },
)
STATUS = MeshStatus(
    "/d",
    7,
    True,
    1024,
    (ProcessStatus("east", "cluster", "down", None, "127.0.0.1:1", "a", 0, 0, 0.0, "/d/log"),),
    "127.0.0.1:7401",
)


def test_the_ready_file_has_exactly_these_keys() -> None:
    document = json.loads(READY.to_json())
    assert list(document) == ["endpoint", "console", "store", "dir", "services", "clusters"]
    assert list(document["services"]["registry-0"]) == ["pid", "address", "metrics"]
    assert list(document["clusters"]["east"]) == ["pid", "bootstrap", "zone", "brokers"]
    assert list(document["clusters"]["east"]["brokers"]["east"]) == ["pid", "address", "rack"]
    assert document["clusters"]["east"]["pid"] is None


def test_a_status_has_the_endpoint() -> None:
    assert json.loads(STATUS.to_json())["endpoint"] == "127.0.0.1:7401"


def test_tls_is_named_only_where_it_is_spoken() -> None:
    """Releases before TLS read these documents, and know no such field."""
    paths = {"ca": "/d/ca.pem", "certificate": "/d/certificate.pem", "key": "/d/key.pem"}
    for document in (READY, STATUS):
        assert "tls" not in json.loads(document.to_json())
        assert json.loads(replace(document, tls=paths).to_json())["tls"] == paths
    assert ready_from_json(replace(READY, tls=paths).to_json()).tls == paths
    assert status_from_json(replace(STATUS, tls=paths).to_json()).tls == paths
    assert replace(READY, tls=paths).user_tls == Tls(Path(paths["certificate"]), Path(paths["key"]), Path(paths["ca"]))
    assert READY.user_tls is None


def test_both_come_back_from_their_text() -> None:
    assert ready_from_json(READY.to_json()) == READY
    assert status_from_json(STATUS.to_json()) == STATUS
