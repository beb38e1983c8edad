"""Our own processes: started once, ready when they say so, ended in order or by force, with their last words."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.host.tls.paths import Tls
from braid.kernel.errors import Refused, Unavailable
from devmesh.blueprint import StorePlace
from devmesh.processes.process import EtcdProcess, ServiceProcess
from tests.support.sleepers import BROKEN, HEEDLESS, PLAIN, Sleeper

_SERVICE = """
import json, os, pathlib, sys, time
settings = {name: value for name, value in os.environ.items() if name.startswith("BRAID_")}
ready = pathlib.Path(settings["BRAID_READY_FILE"])
whole = ready.with_name("whole.json")
whole.write_text(json.dumps({"metrics": "http://m", **settings}))
whole.rename(ready)
time.sleep(60)
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Sleeper]:
    """One that is ended afterwards."""
    made = Sleeper("registry-0", tmp_path)
    yield made
    made.kill()


def test_a_life_in_order(sleeper: Sleeper) -> None:
    sleeper.start()
    sleeper.wait_ready(10.0)
    with pytest.raises(Refused, match="running already"):
        sleeper.start()
    sleeper.stop()
    assert sleeper.pid is None
    sleeper.stop()
    sleeper.kill()


def test_one_that_does_not_heed_is_ended_by_force(sleeper: Sleeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmesh.processes.process.DEV_STOP_SECONDS", 0.2)
    sleeper.code = HEEDLESS
    sleeper.start()
    sleeper.wait_ready(10.0)
    sleeper.stop()
    assert sleeper.pid is None


def test_a_paused_one_can_be_stopped(sleeper: Sleeper) -> None:
    sleeper.start()
    sleeper.wait_ready(10.0)
    sleeper.pause()
    sleeper.stop()
    assert sleeper.pid is None


def test_last_output_is_passed_on_without_that_of_earlier_starts(sleeper: Sleeper) -> None:
    sleeper.code = BROKEN
    sleeper.start()
    with pytest.raises(Unavailable, match="registry-0 ended while starting: registry-0: the file is damaged"):
        sleeper.wait_ready(10.0)
    sleeper.code = "pass"
    sleeper.start()
    with pytest.raises(Unavailable, match="it wrote nothing"):
        sleeper.wait_ready(10.0)


def test_one_that_never_serves_runs_into_the_timeout(sleeper: Sleeper) -> None:
    sleeper.code = PLAIN.replace("up", "down")
    sleeper.start()
    with pytest.raises(Unavailable, match="not ready after"):
        sleeper.wait_ready(0.2)


def test_a_service_gets_its_settings_and_is_ready_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_METRICS", "nonsense of the caller's")
    command = [sys.executable, "-I", "-c", _SERVICE]
    service = ServiceProcess("registry-0", tmp_path / "r", "127.0.0.1:7401", "sqlite:///x", command=command)
    assert service.metrics == ""
    service.start()
    try:
        service.wait_ready(10.0)
        settings = json.loads((tmp_path / "r" / "ready.json").read_text())
        assert service.metrics == "http://m"
        (tmp_path / "r" / "ready.json").unlink()
        assert service.metrics == "http://m", "it is read once from each start"
        service.kill()
        service.start()
        service.wait_ready(60.0)
        (tmp_path / "r" / "ready.json").write_text('{"metrics": "http://other"}')
        assert service.metrics == "http://other", "another start, another address"
    finally:
        service.kill()
    assert settings["BRAID_STORE"] == "sqlite:///x"
    assert settings["BRAID_LISTEN"] == "127.0.0.1:7401"
    assert settings["BRAID_METRICS"] == "127.0.0.1:0"
    assert settings["BRAID_PARENT_PID"] == str(os.getpid())


def test_a_service_gets_only_its_meshs_certificate_and_admins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's own settings name another mesh's, or half of one."""
    monkeypatch.setenv("BRAID_ACCESS", "enforced")
    monkeypatch.setenv("BRAID_ADMINS", "mallory")
    monkeypatch.setenv("BRAID_TLS_KEY", "/mine/key.pem")
    monkeypatch.setenv("BRAID_TLS_MODE", "permissive")
    tls = Tls(Path("/m/certificate.pem"), Path("/m/key.pem"), Path("/m/ca.pem"))
    assert settings_of_a_service(tmp_path / "plain", None) == {}
    assert settings_of_a_service(tmp_path / "secure", tls, "anna", "mesh") == {
        "BRAID_ACCESS": "enforced",
        "BRAID_ADMINS": "anna,mesh",
        "BRAID_TLS_CERTIFICATE": "/m/certificate.pem",
        "BRAID_TLS_KEY": "/m/key.pem",
        "BRAID_TLS_CA": "/m/ca.pem",
        "BRAID_TLS_RELOAD_SECONDS": "10.0",
    }


def settings_of_a_service(directory: Path, tls: Tls | None, *admins: str) -> dict[str, str]:
    """Settings of TLS and access that a replica is started with."""
    command = [sys.executable, "-I", "-c", _SERVICE]
    service = ServiceProcess(
        "registry-0", directory, "127.0.0.1:7401", "sqlite:///x", command=command, tls=tls, admins=admins
    )
    service.start()
    try:
        service.wait_ready(60.0)
        settings: dict[str, str] = json.loads((directory / "ready.json").read_text())
    finally:
        service.kill()
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(("BRAID_TLS_", "BRAID_ACCESS", "BRAID_ADMINS"))
    }


def test_a_service_started_again_is_not_ready_by_its_old_file(tmp_path: Path) -> None:
    (tmp_path / "ready.json").write_text("{}")
    service = ServiceProcess(
        "registry-0", tmp_path, "127.0.0.1:7401", "sqlite:///x", command=[sys.executable, "-c", "pass"]
    )
    service.start()
    with pytest.raises(Unavailable, match="ended while starting"):
        service.wait_ready(10.0)


def test_an_etcd_that_is_none_says_so(tmp_path: Path) -> None:
    place = StorePlace("etcd", 1, 2, str(tmp_path / "data"))
    etcd = EtcdProcess(Path("/bin/false"), tmp_path, place, [place])
    etcd.start()
    with pytest.raises(Unavailable, match="etcd ended while starting"):
        etcd.wait_ready(10.0)
