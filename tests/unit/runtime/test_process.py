"""A service process applies its settings."""

import pytest

from braid.runtime.process import serves_plaintext_beyond_this_machine
from braid.runtime.settings import Settings

FILES = {"tls_certificate": "/a.crt", "tls_key": "/a.key", "tls_ca": "/ca.crt"}


@pytest.mark.parametrize(
    ("listen", "fields", "exposed"),
    [
        ("127.0.0.1:0", {}, False),
        ("[::1]:0", {}, False),
        ("localhost:0", {}, False),
        ("0.0.0.0:7401", {}, True),
        ("registry-0:7401", {}, True),
        ("0.0.0.0:7401", FILES, False),
        ("0.0.0.0:7401", {**FILES, "tls_mode": "permissive"}, True),
        ("0.0.0.0:7401", {**FILES, "tls_mode": "off"}, True),
    ],
)
def test_plaintext_for_other_machines_is_recognised(listen: str, fields: dict[str, str], exposed: bool) -> None:
    settings = Settings.model_validate({"store": "sqlite:///x", "instance": "registry-0", "listen": listen, **fields})
    assert serves_plaintext_beyond_this_machine(settings) is exposed
