"""An issuer's keys as they are read: over https by a real server, from a file, and within bounds."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.kernel.errors import Invalid, Unavailable
from braid.kernel.limits.access.tokens import TOKEN_KEYS_BYTES_MAX, TOKEN_KEYS_MAX
from braid.runtime.tokens import key_source
from braid.runtime.tokens.key_set import KeySet
from braid.runtime.tokens.key_source import read_keys
from braid.runtime.tokens.settings import TokenSettings, check_tokens
from testbed.authority import Authority
from tests.support.token_issuer import KeyServer, TokenIssuer, key_server


def settings(keys: str, ca: Path | None = None) -> TokenSettings:
    """The settings of one place where keys are."""
    return TokenSettings("https://id.test", "braid", keys, ca)


@pytest.fixture
def server() -> Iterator[KeyServer]:
    """One in plaintext, on this machine."""
    with key_server(TokenIssuer()) as made:
        yield made


def test_keys_come_over_https_from_hosts_the_ca_vouches_for(tmp_path: Path) -> None:
    authority, issuer = Authority.make(), TokenIssuer()
    tls = authority.service(tmp_path / "server")
    other = tmp_path / "other.pem"
    other.write_bytes(Authority.make("Other CA").pem)
    with key_server(issuer, tls) as server:
        assert read_keys(settings(server.url, tls.ca)) == issuer.keys
        for ca in (other, None):
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                read_keys(settings(server.url, ca))
    with pytest.raises(Unavailable, match="cannot be read"):
        read_keys(settings(server.url, tls.ca))


def test_an_answer_that_is_none_is_told(server: KeyServer) -> None:
    server.status = 503
    with pytest.raises(Unavailable, match="Service Unavailable"):
        read_keys(settings(server.url))
    server.location = "http://127.0.0.1:1/elsewhere"
    with pytest.raises(Unavailable, match=r"cannot be read: it redirects to http://127\.0\.0\.1:1/elsewhere"):
        read_keys(settings(server.url))


def test_an_answer_is_bounded_in_size_and_time(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.body = b" " * (TOKEN_KEYS_BYTES_MAX + 1)
    with pytest.raises(Unavailable, match="more than the 1048576 bytes of a key set"):
        read_keys(settings(server.url))
    monkeypatch.setattr(key_source, "TOKEN_KEYS_READ_SECONDS", 0.1)
    server.body, server.pause_seconds = None, 1.0
    before = time.monotonic()
    with pytest.raises(Unavailable, match="timed out"):
        read_keys(settings(server.url))
    assert time.monotonic() - before < 1.0


def test_a_file_of_keys_is_read_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with pytest.raises(Unavailable, match="no such file"):
        read_keys(settings(str(path)))
    path.write_bytes(TokenIssuer().keys)
    assert read_keys(settings(str(path))) == path.read_bytes()
    path.write_bytes(b" " * (TOKEN_KEYS_BYTES_MAX + 1))
    with pytest.raises(Unavailable, match="bytes of a key set"):
        read_keys(settings(str(path)))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"keys": 1}', b'{"keys": []}', b"[" * 100_000,
        json.dumps({"keys": [{"kty": "RSA"}] * (TOKEN_KEYS_MAX + 1)}).encode(),
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}).encode(),
        json.dumps({"keys": [{"kty": "RSA", "use": "enc"}, {"kty": ["RSA"]}, 1]}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_set_of_public_keys_is_refused(content: bytes) -> None:
    with pytest.raises(Unavailable, match="the issuer's"):
        KeySet.parse(content)


@pytest.mark.parametrize("key", [{"kty": "RSA"}, {"kty": "RSA", "n": "!", "e": 1}, {"kty": "EC", "crv": "P-0"}])
def test_a_key_out_of_form_is_no_key(key: dict[str, object]) -> None:
    found = KeySet.parse(json.dumps({"keys": [{**key, "kid": "one"}]}).encode())
    assert found.find("one", "RS256") is None
    assert found.find("one", "ES256") is None


def test_of_several_keys_a_token_names_one() -> None:
    issuer = TokenIssuer()
    assert KeySet.parse(issuer.keys).find("", "ES256") is not None
    issuer.rotate("two")
    found = KeySet.parse(issuer.keys)
    assert found.find("", "ES256") is None
    assert found.find("two", "ES256") is not None
    assert found.find("two", "RS256") is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"keys": "http://id.example/keys"}, "token_keys"),
        ({"keys": "ftp://127.0.0.1/keys"}, "token_keys"),
        ({"keys": "https:///keys"}, "token_keys"),
        ({"keys": "https://id.example:x/keys"}, "token_keys"),
        ({"issuer": ""}, "token_issuer"),
        ({"audience": ""}, "token_audience"),
        ({"keys": ""}, "token_keys"),
        ({"claim": ""}, "token_claim"),
        ({"prefix": "a b"}, "token_prefix"),
        ({"algorithms": ("HS256",)}, "token_algorithms"),
        ({"algorithms": ("none",)}, "token_algorithms"),
        ({"algorithms": ()}, "token_algorithms"),
    ],
)
def test_settings_that_would_take_too_many_are_refused(wrong: dict[str, object], field: str) -> None:
    whole: dict[str, object] = {"issuer": "https://id.test", "audience": "braid", "keys": "https://id.test/keys"}
    check_tokens(TokenSettings(**whole))  # type: ignore[arg-type]
    with pytest.raises(Invalid) as refused:
        check_tokens(TokenSettings(**{**whole, **wrong}))  # type: ignore[arg-type]
    assert refused.value.field == field
