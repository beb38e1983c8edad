"""Settings of a provider that would be unsafe, or with which nobody could sign in, are refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from braid.kernel.errors import Invalid, Unavailable
from console.server.config import ConsoleSettings, check_files
from console.server.oidc.provider import read_client_secret
from console.server.oidc.settings import check_oidc
from tests.support.oidc_provider import SETTINGS

PROVIDER = {"sign_in": "oidc", "oidc_issuer": "https://id.test", "oidc_client_id": "braid-console"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"issuer": ""}, "oidc_issuer"),
        ({"issuer": "http://id.test"}, "oidc_issuer"),
        ({"issuer": "https://id.test?x=1"}, "oidc_issuer"),
        ({"issuer": "https://user@id.test"}, "oidc_issuer"),
        ({"issuer": "https://id.test:x"}, "oidc_issuer"),
        ({"client_id": ""}, "oidc_client_id"),
        ({"scopes": "profile"}, "oidc_scopes"),
        ({"parameters": "prompt"}, "oidc_parameters"),
        ({"parameters": "a=b&state=fixed"}, "oidc_parameters"),
        ({"parameters": "redirect_uri=https://evil.example"}, "oidc_parameters"),
        ({"parameters": "response_mode=fragment"}, "oidc_parameters"),
    ],
)
def test_settings_that_are_wrong_are_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_oidc(replace(SETTINGS, **changes))
    assert refused.value.field == field
    assert refused.value.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "http://127.0.0.1:9000"},
        {"scopes": "openid offline_access"},
        {"parameters": "audience=braid&prompt=login"},
        {"parameters": "hint="},
    ],
)
def test_settings_that_are_sound_are_taken(changes: dict[str, Any]) -> None:
    check_oidc(replace(SETTINGS, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"oidc_client_id": ""}, "oidc_client_id: is not set"),
        ({"sign_in": "link"}, "sign_in: a provider is set, and no way in"),
        ({"url": "http://braid.example"}, "url: .* is not https"),
        ({"url": "https://braid.example/console"}, "url: .* has a path"),
        ({"oidc_token": "refresh"}, "oidc_token"),
    ],
)
def test_a_process_says_what_is_wrong_with_its_variables(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ConsoleSettings.model_validate({"home": "/d", **PROVIDER, **changes})


def test_a_public_address_is_a_name_and_makes_cookies_secure() -> None:
    given = {"home": "/d", **PROVIDER, "listen": "0.0.0.0:7480", "plaintext": True, "url": "https://braid.example"}
    settings = ConsoleSettings.model_validate(given)
    assert settings.secure
    assert settings.names == ("braid.example",)
    assert settings.provider(settings.url).redirect_uri == "https://braid.example/oidc/callback"
    assert not ConsoleSettings.model_validate({"home": "/d", **PROVIDER}).secure


def test_a_secret_is_read_from_a_file_that_nobody_else_may_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    settings = ConsoleSettings.model_validate({"home": tmp_path, **PROVIDER, "oidc_client_secret": path})
    with pytest.raises(Invalid, match="is no file"):
        check_files(settings)
    path.touch(0o644)
    path.write_text("s3cret\n")
    with pytest.raises(Unavailable, match="other users") as refused:
        check_files(settings)
    assert "s3cret" not in str(refused.value)
    path.chmod(0o600)
    check_files(settings)
    assert read_client_secret(path) == "s3cret"
    path.write_text("\n")
    with pytest.raises(Unavailable, match="holds no secret"):
        check_files(settings)
