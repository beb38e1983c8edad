"""Settings from arguments, environment and file, and what they refuse."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from braid.host.system import system_host
from braid.host.tls.paths import Tls
from braid.kernel.audit.forms import Reads
from braid.kernel.errors import Invalid
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.opening import open_store
from braid.runtime.settings import Settings, split_address


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "braid.toml"
    file.write_text('store = "etcd://a:1"\ninstance = "registry-7"\nlog_level = "debug"\n')
    monkeypatch.setenv("BRAID_CONFIG", str(file))
    monkeypatch.setenv("BRAID_STORE", "sqlite:///from/environment")
    settings = Settings()  # type: ignore[call-arg]  # pydantic-settings reads the rest
    assert (settings.store, settings.instance, settings.log_level) == (
        "sqlite:///from/environment",
        "registry-7",
        "debug",
    )
    assert settings.listen == "127.0.0.1:0"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instance", "Registry 0"),
        ("listen", "localhost"),
        ("metrics", "127.0.0.1:99999"),
        ("log_level", "loud"),
        ("parent_pid", -1),
        ("session_ttl_seconds", 0),
        ("audit", "maybe"),
        ("audit_reads", "some"),
        ("audit_records", 99),
        ("audit_days", 0),
    ],
)
def test_values_out_of_form_are_named(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Settings.model_validate({"store": "sqlite:///x", "instance": "registry-0", field: value})


def test_calls_are_recorded_unless_settings_say_no() -> None:
    base = {"store": "sqlite:///x", "instance": "registry-0"}
    assert Settings.model_validate(base).audit_settings() == AuditSettings()
    assert Settings.model_validate({**base, "audit": "off"}).audit_settings() is None
    told = {"audit_reads": "content", "audit_records": 700, "audit_days": 3, "audit_log": "-"}
    assert Settings.model_validate({**base, **told}).audit_settings() == AuditSettings(Reads.CONTENT, 700, 3, "-")


def test_addresses_split() -> None:
    assert split_address("127.0.0.1:7401") == ("127.0.0.1", 7401)


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "sqlite://relative", "etcd://", "redis://x"])
def test_a_url_that_names_no_store_is_invalid(url: str) -> None:
    with pytest.raises(Invalid) as error:
        open_store(url, system_host())
    assert error.value.field == "store"


async def test_a_file_is_opened(tmp_path: Path) -> None:
    store = open_store(f"sqlite://{tmp_path}/store.db", system_host())
    assert await store.incarnation() == 1
    await store.close()


FILES = {"tls_certificate": "/a.crt", "tls_key": "/a.key", "tls_ca": "/ca.crt"}
BASE = {"store": "sqlite:///x", "instance": "registry-0"}


def test_a_certificate_makes_mutual_tls_required() -> None:
    settings = Settings.model_validate({**BASE, **FILES, "tls_reload_seconds": 3})
    assert settings.tls == Tls(Path("/a.crt"), Path("/a.key"), Path("/ca.crt"), 3)
    assert not settings.permissive
    assert Settings.model_validate({**BASE, **FILES, "tls_mode": "permissive"}).permissive


def test_without_a_certificate_plaintext_is_served() -> None:
    assert Settings.model_validate({**BASE, "tls_certificate": "", "tls_mode": ""}).tls is None
    assert Settings.model_validate({**BASE, **FILES, "tls_mode": "off"}).tls is None


@pytest.mark.parametrize("missing", FILES)
def test_some_tls_files_without_others_are_refused(missing: str) -> None:
    some = {name: path for name, path in FILES.items() if name != missing}
    with pytest.raises(ValidationError, match=f"BRAID_{missing.upper()}: is not set, though BRAID_TLS_"):
        Settings.model_validate({**BASE, **some})


@pytest.mark.parametrize("mode", ["permissive", "required"])
def test_a_mode_with_tls_needs_a_certificate(mode: str) -> None:
    with pytest.raises(ValidationError, match=f"BRAID_TLS_CERTIFICATE: is not set, though BRAID_TLS_MODE is {mode}"):
        Settings.model_validate({**BASE, "tls_mode": mode})


EVERYWHERE = {**BASE, "listen": "0.0.0.0:7401"}
AT_HOME = {**BASE, "listen": "127.0.0.1:7401", "tls_listen": "[::1]:7601"}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (EVERYWHERE, "BRAID_TLS_CERTIFICATE"),
        ({**EVERYWHERE, "listen": "braid.example.com:7401"}, "BRAID_TLS_CERTIFICATE"),
        ({**EVERYWHERE, "tls_mode": ""}, "BRAID_TLS_CERTIFICATE"),
        ({**EVERYWHERE, **FILES}, "BRAID_ACCESS"),
        ({**EVERYWHERE, **FILES, "access": ""}, "BRAID_ACCESS"),
        ({**EVERYWHERE, **FILES, "tls_mode": "permissive"}, "BRAID_ACCESS"),
        ({**AT_HOME, **FILES, "tls_mode": "permissive", "tls_listen": "10.0.0.1:7601"}, "BRAID_ACCESS"),
    ],
)
def test_nothing_is_open_to_other_machines_by_default(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ValidationError, match=f"{missing}: is not set, and other machines reach this replica"):
        Settings.model_validate(given)


@pytest.mark.parametrize(
    "given",
    [
        {**EVERYWHERE, "tls_mode": "off"},
        {**EVERYWHERE, **FILES, "tls_mode": "off"},
        {**EVERYWHERE, **FILES, "access": "open"},
        {**EVERYWHERE, **FILES, "access": "enforced"},
        {**AT_HOME},
        {**AT_HOME, **FILES},
    ],
)
def test_a_replica_is_open_where_settings_say_so_or_alone(given: dict[str, str]) -> None:
    Settings.model_validate(given)
