"""Settings of the console: what would be unsafe is refused at the start."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from braid.kernel.errors import Invalid
from console.server.config import ConsoleSettings, check_files


@pytest.mark.parametrize("listen", ["0.0.0.0:7480", "10.0.0.1:7480", "[::]:7480"])
def test_plain_http_beyond_this_machine_is_asked_for(listen: str) -> None:
    with pytest.raises(ValidationError, match="plain text"):
        ConsoleSettings(home=Path("/d"), listen=listen)
    ConsoleSettings(home=Path("/d"), listen=listen, plaintext=True)


@pytest.mark.parametrize(
    "wrong",
    [{"listen": "7480"}, {"listen": "127.0.0.1:99999"}, {"sign_in": "password"}, {"sign_in": ""}, {"tls_key": "/k"}],
)
def test_settings_out_of_form_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ConsoleSettings.model_validate({"home": "/d", **wrong})


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"schema_registry": "registry:8081"}, "schema_registry"),
        ({"schema_registry": "file:///etc/passwd"}, "schema_registry"),
        ({"schema_registry": "https://ada:secret@registry"}, "schema_registry"),
        ({"schema_registry": "http://registry:8081", "schema_registry_login": "/l"}, "schema_registry_login"),
        ({"schema_registry": "http://localhost.example", "schema_registry_login": "/l"}, "schema_registry_login"),
        ({"schema_registry_login": "/l"}, "schema_registry_login"),
    ],
)
def test_a_schema_registry_is_shown_no_login_in_plain_text(given: dict[str, str], field: str) -> None:
    with pytest.raises(ValidationError, match=f"{field}: "):
        ConsoleSettings.model_validate({"home": "/d", **given})
    for right in ("http://registry:8081", "https://registry/base"):
        ConsoleSettings(home=Path("/d"), schema_registry=right)
    for private in ("https://registry", "http://127.0.0.1:8081", "http://localhost/base"):
        ConsoleSettings(home=Path("/d"), schema_registry=private, schema_registry_login=Path("/l"))


def test_a_login_that_others_may_read_is_refused(tmp_path: Path) -> None:
    login = tmp_path / "login"
    settings = ConsoleSettings(home=tmp_path, schema_registry="https://registry", schema_registry_login=login)
    with pytest.raises(Invalid, match="is no file"):
        check_files(settings)
    login.touch(0o644)
    with pytest.raises(Invalid, match="other users"):
        check_files(settings)
    login.chmod(0o600)
    check_files(settings)


def test_no_page_reaches_it_by_the_address_of_all_machines() -> None:
    settings = ConsoleSettings(home=Path("/d"), listen="0.0.0.0:7480", plaintext=True, hosts="a.example, b.example")
    assert settings.names == ("a.example", "b.example")
    assert ConsoleSettings(home=Path("/d"), listen="10.0.0.1:1", plaintext=True).names == ("10.0.0.1",)


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.touch()
    key.touch(0o644)
    settings = ConsoleSettings(home=tmp_path, tls_certificate=certificate, tls_key=key)
    with pytest.raises(Invalid, match="other users"):
        check_files(settings)
    key.chmod(0o600)
    check_files(settings)
    key.unlink()
    with pytest.raises(Invalid, match="is no file"):
        check_files(settings)
