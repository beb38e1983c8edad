"""Security profiles: found by name, refused by name, and their secrets never told."""

from pathlib import Path

import pytest

from braid.kafka.cluster import AioKafka
from braid.kafka.security import Security, read_profile
from braid.kernel.errors import Invalid


def test_no_profile_is_plain_text() -> None:
    assert read_profile("") == Security()
    assert Security().client_settings()["security_protocol"] == "PLAINTEXT"


def test_a_profile_is_found_by_variable_or_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    own = tmp_path / "own.toml"
    own.write_text(
        'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "SCRAM-SHA-512"\n'
        f'username = "braid"\npassword_file = "{secret}"\n'
    )
    (tmp_path / "tls.toml").write_text('security_protocol = "SSL"\n')
    monkeypatch.setenv("BRAID_KAFKA_PROFILE_PROD_EAST", str(own))
    monkeypatch.setenv("BRAID_KAFKA_PROFILES", str(tmp_path))
    assert read_profile("prod-east") == Security("SASL_PLAINTEXT", "SCRAM-SHA-512", "braid", "hunter2", None)
    assert read_profile("tls").ssl_context is not None


@pytest.mark.parametrize(
    "text",
    [
        'security_protocol = "SASL_PLAINTEXT"\nusername = "braid"\n',
        'security_protocol = "GUESS"\n',
        'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "GSSAPI"\nusername = "a"\npassword = "hunter2"\n',
        'user = "braid"\npassword = "hunter2"\n',
        'security_protocol = "SSL"\nca_file = "/nonexistent"\n',
        "password = hunter2",
        "\udcff",
    ],
)
def test_a_profile_that_makes_no_sense_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "prod.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setenv("BRAID_KAFKA_PROFILES", str(tmp_path))
    with pytest.raises(Invalid, match="'prod'") as refused:
        read_profile("prod")
    assert refused.value.field == "security_profile"
    assert "hunter2" not in str(refused.value)


def test_an_unknown_profile_and_a_bad_address_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRAID_KAFKA_PROFILES", raising=False)
    kafka = AioKafka("test")
    with pytest.raises(Invalid, match="BRAID_KAFKA_PROFILE_PROD_EAST"):
        kafka.cluster("localhost:9092", "prod-east")
    for bootstrap in ("", "localhost", "localhost:", "localhost:http", "localhost:0", "a:1,,b:2"):
        with pytest.raises(Invalid) as refused:
            kafka.cluster(bootstrap, "")
        assert refused.value.field == "bootstrap"
    kafka.cluster("localhost:9092,[::1]:9093", "")
