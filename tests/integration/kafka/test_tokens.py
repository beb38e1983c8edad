"""OAUTHBEARER against a real broker that checks signatures, and a token endpoint behind TLS."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.ports import Acl, KafkaCluster, TopicPartition
from testbed.patience import until
from tests.support.secured_kafka import ADMIN, SecuredKafka, secured_kafka
from tests.support.tls_files import Authority
from tests.support.token_server import TokenServer, token_server

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

TOPIC: Final = TopicPartition("t", 0)
SHOP: Final = [Acl("Topic", "t", "Literal", "Write", "")]
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
AT_ONCE_SECONDS: Final = 6.0


class Ground(NamedTuple):
    """A broker, and the endpoint whose tokens it takes."""

    secured: SecuredKafka
    tokens: TokenServer
    authority: Authority

    def profile(self, source: str) -> str:
        """A profile that gets its tokens somewhere."""
        return (
            'sasl_mechanism = "OAUTHBEARER"\nhosts = ["127.0.0.1:*"]\n'
            f'ca_file = "{self.secured.authority.ca_file}"\n{source}\n'
        )

    def credentials(self, secret_file: Path) -> str:
        """Where tokens come from, by client credentials."""
        return (
            f'token_endpoint = "{self.tokens.url}"\nclient_id = "shop"\nclient_secret_file = "{secret_file}"\n'
            f'scope = "kafka"\ntoken_ca_file = "{self.authority.ca_file}"'
        )


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A topic that `shop` may write to."""
    directory = tmp_path_factory.mktemp("tokens")
    authority, keys = Authority(directory / "tls", "of the token endpoint"), directory / "keys.json"
    with token_server(authority.issue("endpoint")) as tokens:
        tokens.write_keys(keys)
        listener = "listener.name.sasl_ssl.oauthbearer."
        settings = {
            "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            f"{listener}sasl.jaas.config": f"{OAUTH}OAuthBearerLoginModule required;",
            f"{listener}sasl.server.callback.handler.class": f"{OAUTH}OAuthBearerValidatorCallbackHandler",
            f"{listener}sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{listener}sasl.oauthbearer.expected.audience": "kafka",
        }
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"]
        with secured_kafka(directory / "kafka", [], settings, allowed) as secured:
            asyncio.run(prepare(secured))
            yield Ground(secured, tokens, authority)


async def prepare(secured: SecuredKafka) -> None:
    """Makes the topic, and gives what `shop` needs."""
    admin = secured.seen_by(ADMIN).admin()
    await admin.create_topic(TOPIC.topic, 1, 1, {})
    await admin.close()
    await secured.give("shop", SHOP)


@pytest.fixture
def secret_file(tmp_path: Path, ground: Ground) -> Path:
    """The client's secret."""
    return write_secret(tmp_path / "secret", ground.tokens.secrets["shop"])


def write_secret(path: Path, text: str) -> Path:
    """A file that nobody else may read."""
    path.write_text(text)
    path.chmod(0o600)
    return path


async def send(cluster: KafkaCluster) -> int:
    """Sends a record; returns its offset."""
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    try:
        async with asyncio.timeout(AT_ONCE_SECONDS):
            await producer.start()
            return (await (await producer.send(TOPIC, b"x", None, [], 1))).offset
    finally:
        await producer.abandon()


async def sent(cluster: KafkaCluster) -> bool:
    """Whether a record arrives; a broker may not have heard of the ACL yet."""
    try:
        await send(cluster)
    except ClusterAccessDenied as error:
        print(error)
        return False
    return True


async def test_client_credentials_work_and_one_token_serves_all(ground: Ground, secret_file: Path) -> None:
    cluster = ground.secured.seen_with(ground.profile(ground.credentials(secret_file)))
    ground.tokens.asked.clear()
    await until(lambda: sent(cluster), "a record is sent")
    for _ in range(3):
        await send(cluster)
    assert ground.tokens.asked == [{"grant_type": "client_credentials", "scope": "kafka", "client": "shop"}]


async def test_a_token_of_a_file_is_read_for_each_connection(ground: Ground, tmp_path: Path) -> None:
    path = write_secret(tmp_path / "token", ground.tokens.token("shop"))
    cluster = ground.secured.seen_with(ground.profile(f'token_file = "{path}"'))
    await until(lambda: sent(cluster), "a record is sent")
    for bad in (ground.tokens.token("shop", seconds=-600), ground.tokens.token("shop", audience="another"), "a.b.c"):
        write_secret(path, bad)
        error = await refused(cluster)
        assert error.problem == "token" and "does not accept the token" in error.message
    write_secret(path, ground.tokens.token("shop"))
    await until(lambda: sent(cluster), "a record is sent again")
    write_secret(path, ground.tokens.token("a stranger"))

    async def named() -> bool:
        return (await refused(cluster)).problem == "idempotent_write"

    await until(named, "a stranger is known, and may do nothing")


async def test_no_token_is_had_and_the_endpoint_is_named_at_once(ground: Ground, tmp_path: Path) -> None:
    wrong = write_secret(tmp_path / "wrong", "another")
    error = await refused(ground.secured.seen_with(ground.profile(ground.credentials(wrong))))
    assert error.problem == "token" and f"{ground.tokens.url} answers 401: invalid_client" in error.message
    assert "another" not in str(error)
    elsewhere = ground.credentials(wrong).replace(str(ground.authority.ca_file), str(ground.secured.authority.ca_file))
    error = await refused(ground.secured.seen_with(ground.profile(elsewhere)))
    assert error.problem == "token" and "CERTIFICATE_VERIFY_FAILED" in error.message


async def test_a_silent_endpoint_is_not_taken_for_an_outage(ground: Ground, secret_file: Path) -> None:
    ground.tokens.release.clear()
    try:
        cluster = ground.secured.seen_with(ground.profile(ground.credentials(secret_file)))
        error = await refused(cluster)
        assert error.problem == "token" and "no token came within" in error.message
        admin = cluster.admin()
        with pytest.raises(ClusterAccessDenied, match="no token came within"):
            await admin.describe_topics([TOPIC.topic])
        await admin.close()
    finally:
        ground.tokens.release.set()
    await until(lambda: sent(cluster), "a record is sent once the endpoint answers")


async def refused(cluster: KafkaCluster) -> ClusterAccessDenied:
    """Why nothing can be sent."""
    with pytest.raises(ClusterAccessDenied) as raised:
        await send(cluster)
    print(raised.value)
    return raised.value
