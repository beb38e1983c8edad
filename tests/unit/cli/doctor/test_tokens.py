"""`doctor` on tokens: replicas that take them are not taken for plain text, and one's own token ends some day."""

import asyncio
from pathlib import Path

import pytest

from braid.cli.doctor.findings import Level
from braid.cli.doctor.tokens import check_token, with_tokens
from braid.rpc.directory import KnownEndpoint
from testbed.authority import Authority
from tests.support.token_issuer import TokenIssuer, key_server


def test_an_address_that_speaks_tls_is_no_plain_text(tmp_path: Path) -> None:
    tls = Authority.make().service(tmp_path)
    issuer = TokenIssuer()
    with key_server(issuer, tls) as encrypted, key_server(issuer) as plain:
        addresses = [server.url.split("/")[2] for server in (encrypted, plain)]
        listed = [KnownEndpoint("registry", "r", each, True, "10.0.0.1:7501") for each in addresses]
        alone = KnownEndpoint("registry", "r", "10.0.0.1:7401", True, "10.0.0.1:7401")
        found = asyncio.run(with_tokens([*listed, alone]))
    assert [each.address for each in found] == ["10.0.0.1:7501", addresses[1], "10.0.0.1:7401"]


@pytest.mark.parametrize(
    ("seconds", "level", "said"),
    [(3_600, Level.OK, "ends in 60m"), (30, Level.WARN, "ends in 30s"), (-1, Level.FAIL, "has expired")],
)
def test_the_end_of_ones_own_token_is_told(seconds: float, level: Level, said: str) -> None:
    found = check_token(TokenIssuer().token(now=1_000_000.0, seconds=seconds), 1_000_000.0)
    assert found.level is level
    assert said in found.message


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "a.e30.c", "a.W10.c", "a.bnVsbA.c"])
def test_what_does_not_say_when_it_ends_is_told(token: str) -> None:
    assert check_token(token, 0.0).level is Level.WARN
