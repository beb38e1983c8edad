"""Which keys of a profile go together: what is wrong is named, with what to write."""

import pytest

from braid.kafka.profiles.keys import parse_keys
from braid.kernel.errors import Invalid

SASL = {"username": "braid", "password": "hunter2", "ca_file": "/ca.pem"}
FILE = {"sasl_mechanism": "OAUTHBEARER", "token_file": "/token", "ca_file": "/ca.pem"}
ENDPOINT = {
    "sasl_mechanism": "OAUTHBEARER",
    "token_endpoint": "https://id.example.com/token",
    "client_id": "shop",
    "client_secret_file": "/secret",
    "ca_file": "/ca.pem",
}


@pytest.mark.parametrize("settings", [SASL, FILE, ENDPOINT, {**SASL, "sasl_mechanism": "SCRAM-SHA-512"}])
def test_a_secret_travels_by_tls_unless_told_otherwise(settings: dict[str, object]) -> None:
    assert parse_keys("prod", settings).protocol == "SASL_SSL"


@pytest.mark.parametrize(
    ("settings", "problem", "remedy"),
    [
        ({"username": "braid", "password": "hunter2"}, "names no ca_file", "system_ca = true"),
        ({**SASL, "system_ca": True}, "both ca_file and system_ca", "keep the one"),
        ({**SASL, "system_ca": "yes"}, "system_ca = 'yes'", "without quotes"),
        ({**SASL, "token_file": "/token"}, "has token_file, which only", 'sasl_mechanism = "OAUTHBEARER"'),
        ({**SASL, "passwrod": "hunter2"}, "unknown settings: passwrod", "password_file"),
        ({**FILE, "username": "braid"}, "has username, which OAUTHBEARER does not use", "token_file"),
        ({**FILE, "scope": "kafka"}, "has scope, which only token_endpoint uses", "token_endpoint"),
        ({**FILE, "token_endpoint": "https://a/b"}, "either token_file or token_endpoint", "one place"),
        ({"sasl_mechanism": "OAUTHBEARER", "system_ca": True}, "either token_file or token_endpoint", "one place"),
        ({**FILE, "security_protocol": "SSL"}, "OAUTHBEARER with SSL", "SASL_SSL"),
        ({**FILE, "security_protocol": "SASL_PLAINTEXT"}, "its token readable to everybody", "plaintext_password"),
        ({**ENDPOINT, "client_id": ""}, "lacks client_id", "id of a client"),
        ({**ENDPOINT, "client_secret": "hunter2"}, "either client_secret or client_secret_file", "safer"),
        ({**ENDPOINT, "token_endpoint": "http://id.example.com/token"}, "without TLS", "https://id.example.com"),
        ({**ENDPOINT, "token_endpoint": "id.example.com/token"}, "token_endpoint 'id.example.com", "https://host/path"),
        ({**ENDPOINT, "token_endpoint": "https://a:b@c/token"}, "token_endpoint", "without user"),
        ({**ENDPOINT, "token_endpoint": "https://[::1/token"}, "token_endpoint", "https://host/path"),
        ({**ENDPOINT, "token_endpoint": "https://a:99999/"}, "token_endpoint", "https://host/path"),
        ({"key_file": "/key"}, "has key_file, which needs certificate_file", "certificate"),
        ({"key_password_file": "/password"}, "needs certificate_file", "certificate"),
    ],
)
def test_what_makes_no_sense_is_named(settings: dict[str, object], problem: str, remedy: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_keys("prod", settings)
    assert problem in refused.value.message and remedy in refused.value.remedy
    assert refused.value.field == "security_profile" and "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/token", "http://[::1]/token", "http://localhost/token"])
def test_a_token_endpoint_of_this_machine_needs_no_tls(url: str) -> None:
    assert parse_keys("prod", {**ENDPOINT, "token_endpoint": url}).values["token_endpoint"] == url


def test_certificates_alone_need_no_ca_file() -> None:
    keys = parse_keys("prod", {"certificate_file": "/cert.pem", "key_file": "/key.pem"})
    assert (keys.protocol, list(keys.files)) == ("SSL", ["/cert.pem", "/key.pem"])
