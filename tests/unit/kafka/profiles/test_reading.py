"""Profiles whose files change under a process: the next connection has what they say now."""

import logging
from pathlib import Path

import pytest

from braid.kafka.profiles.reading import ProfileReader, read_profile_file
from braid.kafka.security import Security
from braid.kernel.errors import Invalid
from tests.support.tls_files import Authority


class Written:
    """A profile `prod` with a password in a file of its own."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "tls")
        self.password, self.path = directory / "password", directory / "prod.toml"
        self.say("first")
        self.declare(f'username = "braid"\npassword_file = "{self.password}"\n')

    def say(self, password: str) -> None:
        """Replaces the password, as tools do that mount secrets: a new file in the place of the old."""
        self._replace(self.password, password)

    def declare(self, text: str) -> None:
        """Replaces the profile."""
        self._replace(self.path, f'{text}ca_file = "{self.authority.ca_file}"\nhosts = ["a:1"]\n')

    def _replace(self, path: Path, text: str) -> None:
        new = path.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        new.rename(path)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Found by its name."""
    monkeypatch.setenv("BRAID_KAFKA_PROFILES", str(tmp_path))
    return Written(tmp_path)


def test_a_password_is_replaced_and_the_next_connection_has_it(written: Written) -> None:
    security = ProfileReader()("prod")
    written.say("second")
    assert security.password == "first" and security.current().password == "second"
    assert security.current().client_settings()["sasl_plain_password"] == "second"


def test_nothing_changed_and_nothing_is_read_again(written: Written) -> None:
    security = ProfileReader()("prod")
    assert security.current() is security.current()
    assert security.current().ssl_context is security.ssl_context


def test_a_profile_names_another_file_and_that_one_is_watched(written: Written, tmp_path: Path) -> None:
    security, other = ProfileReader()("prod"), tmp_path / "other"
    other.write_text("elsewhere")
    other.chmod(0o600)
    written.declare(f'username = "another"\npassword_file = "{other}"\n')
    assert (security.current().username, security.current().password) == ("another", "elsewhere")
    other.write_text("changed there")
    assert security.current().password == "changed there"


@pytest.mark.parametrize("harm", ["missing", "open to others", "nonsense", "a new file missing"])
def test_files_make_no_sense_and_the_last_good_ones_go_on(
    written: Written, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    reader = ProfileReader()
    security, before = reader("prod"), written.path.read_text()
    if harm == "missing":
        written.password.unlink()
    elif harm == "open to others":
        written.password.chmod(0o644)
    elif harm == "nonsense":
        written.declare("username = hunter2\n")
    else:
        written.declare(f'username = "braid"\npassword_file = "{written.password}2"\n')
    with caplog.at_level(logging.WARNING, "braid.kafka"):
        for _ in range(3):
            assert security.current().password == "first"
    assert len(caplog.records) == 1 and "what it was before goes on" in caplog.text
    assert "hunter2" not in caplog.text and "first" not in caplog.text.replace("what it was before", "")
    assert any("cannot be read" in each for each in reader("prod").warnings)
    written.path.write_text(before)
    written.say("mended")
    assert security.current().password == "mended"
    assert not any("cannot be read" in each for each in reader("prod").warnings)


def test_a_file_that_was_missing_comes_and_is_read(written: Written) -> None:
    security = ProfileReader()("prod")
    late = written.password.with_name("late")
    written.declare(f'username = "braid"\npassword_file = "{late}"\n')
    assert security.current().password == "first"
    late.write_text("late")
    late.chmod(0o600)
    assert security.current().password == "late"


def test_a_profile_that_never_made_sense_is_refused_each_time(written: Written) -> None:
    written.password.unlink()
    reader = ProfileReader()
    for _ in range(2):
        with pytest.raises(Invalid, match="'prod'"):
            reader("prod")
    written.say("now")
    assert reader("prod").password == "now"


# --- certificates


def certified(written: Written, tmp_path: Path, more: str = "", *, password: str = "") -> Security:
    """A profile with a client certificate."""
    files = written.authority.issue("client", password=password)
    path = tmp_path / "mutual.toml"
    path.write_text(
        f'certificate_file = "{files.certificate}"\nkey_file = "{files.key}"\nca_file = "{written.authority.ca_file}"\n'
        f"{more}"
    )
    return read_profile_file("mutual", path)


def test_a_certificate_is_replaced_and_its_half_is_never_used(written: Written, tmp_path: Path) -> None:
    security = certified(written, tmp_path)
    first = security.current().ssl_context
    key = Path(tmp_path / "tls" / "client-key.pem")
    old = key.read_bytes()
    written.authority.issue("client")
    new = key.read_bytes()
    key.write_bytes(old)  # the certificate came first; its key is on its way
    assert security.current().ssl_context is first
    key.write_bytes(new)
    assert security.current().ssl_context not in (first, None)


def test_an_encrypted_key_opens_with_its_password_alone(written: Written, tmp_path: Path) -> None:
    password = tmp_path / "key-password"
    password.write_text("open sesame\n")
    password.chmod(0o600)
    more = f'key_password_file = "{password}"\n'
    assert certified(written, tmp_path, more, password="open sesame").ssl_context is not None
    with pytest.raises(Invalid, match="a password that does not open"):
        certified(written, tmp_path, more, password="another")
    with pytest.raises(Invalid) as refused:
        certified(written, tmp_path, password="open sesame")
    assert "encrypted key" in refused.value.message and "key_password_file" in refused.value.remedy
    password.chmod(0o644)
    with pytest.raises(Invalid, match="open to other users"):
        certified(written, tmp_path, more, password="open sesame")


# --- tokens


def test_a_profile_of_tokens_is_read_and_its_provider_stays(written: Written, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    text = (
        'sasl_mechanism = "OAUTHBEARER"\ntoken_endpoint = "https://id.example.com/token"\nclient_id = "shop"\n'
        f'client_secret_file = "{secret}"\n'
    )
    secret.chmod(0o644)
    written.declare(text)
    with pytest.raises(Invalid, match="open to other users"):
        ProfileReader()("prod")
    secret.chmod(0o600)
    security = ProfileReader()("prod")
    assert security.tokens is not None and security.protocol == "SASL_SSL"
    secret.write_text("another secret")
    assert security.current() is not security and security.current().tokens is security.tokens
    written.declare(text + 'scope = "kafka"\n')
    assert security.current().tokens is not security.tokens
    assert "hunter2" not in repr(security)
