"""Possible answers of a token endpoint, and what a client does with them. A real endpoint, in a thread."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from braid.kafka.profiles.token_endpoint import TokenEndpoint, TokenError
from braid.kernel.limits.kafka import KAFKA_TOKEN_ANSWER_BYTES, TOKEN_LIFETIME_SECONDS
from tests.support.tls_files import Authority
from tests.support.token_server import TokenServer, token_server


@pytest.fixture
def server() -> Iterator[TokenServer]:
    """Without TLS."""
    with token_server() as made:
        yield made


def endpoint(server: TokenServer, **changes: object) -> TokenEndpoint:
    """The endpoint with the credentials that the server knows."""
    made = TokenEndpoint(server.url, "shop", client_secret=server.secrets["shop"], scope="kafka")
    return replace(made, **changes)  # type: ignore[arg-type]


def test_credentials_are_sent_as_the_rfc_says(server: TokenServer) -> None:
    server.secrets["a:b c"] = "p%&+é:"
    found = endpoint(server, client_id="a:b c", client_secret="p%&+é:").ask()
    assert found.lifetime_seconds == 300.0 and found.text.count(".") == 2
    assert server.asked[0]["grant_type"] == "client_credentials" and server.asked[0]["scope"] == "kafka"
    endpoint(server, scope="").ask()
    assert "scope" not in server.asked[1]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b'{"error": "invalid_client"}', "answers 401: invalid_client"),
        (500, b"<html>", "answers 500"),
        (302, b"", "answers 302"),
        (400, b'{"error": "a\\nb"}', "answers 400"),
        (200, b"{}", "without an access_token"),
        (200, b"[]", "without an access_token"),
        (200, b"\xff", "without an access_token"),
        (200, b'{"access_token": 7}', "without an access_token"),
        (200, b'{"access_token": "a\\u0001auth=x"}', "not one of RFC 6750"),
        (200, b" " * (KAFKA_TOKEN_ANSWER_BYTES + 1), "answers more than"),
    ],
)
def test_an_answer_without_a_token_is_told(server: TokenServer, status: int, body: bytes, said: str) -> None:
    server.answer = (status, body)
    with pytest.raises(TokenError) as raised:
        endpoint(server).ask()
    assert said in str(raised.value)
    assert server.secrets["shop"] not in str(raised.value) + repr(endpoint(server))


@pytest.mark.parametrize("expires_in", ["null", '"soon"', "0", "-5", "true", "NaN", "1e999"])
def test_a_token_without_a_lifetime_gets_a_bound(server: TokenServer, expires_in: str) -> None:
    server.answer = (200, b'{"access_token": "abc", "expires_in": %s}' % expires_in.encode())
    assert endpoint(server).ask().lifetime_seconds == TOKEN_LIFETIME_SECONDS


def test_nobody_listens_and_the_endpoint_is_named() -> None:
    with pytest.raises(TokenError, match=r"http://127\.0\.0\.1:1/token does not answer: .*refused"):
        TokenEndpoint("http://127.0.0.1:1/token", "shop", client_secret="x").ask()


def test_only_the_named_authority_may_sign_the_endpoint(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b", "another")
    with token_server(authority.issue("endpoint")) as server:
        assert endpoint(server, ca_file=authority.ca_file).ask().text
        for wrong in (other.ca_file, None):
            with pytest.raises(TokenError, match="CERTIFICATE_VERIFY_FAILED"):
                endpoint(server, ca_file=wrong).ask()
        assert len(server.asked) == 1


def test_the_secret_file_is_read_for_each_token(server: TokenServer, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    asked = endpoint(server, client_secret="", client_secret_file=path)
    with pytest.raises(TokenError, match="cannot be read: FileNotFoundError"):
        asked.ask()
    path.write_text(server.secrets["shop"] + "\n")
    with pytest.raises(TokenError, match="chmod 600"):
        asked.ask()
    path.chmod(0o600)
    assert asked.ask().text
    path.write_text("another")
    with pytest.raises(TokenError, match="invalid_client"):
        asked.ask()
