"""Every way a security profile has to prove who it is, against a real broker that takes each of them."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.acls import AclScope, acls_of
from braid.kernel.errors import ClusterAccessDenied
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.storage import new_kafka_id
from devmesh.toolchain.jars import kafka_classpath
from devmesh.toolchain.java import java_binary
from devmesh.toolchain.jvm import KafkaJvm
from testbed.patience import until
from tests.support.planted import credential
from tests.support.secured_kafka import SecuredKafka

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
WORD: Final = credential("scram")
LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
# Kafka's settings name a mechanism in lower case.
SETTINGS: Final[Mapping[str, str]] = {
    "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM)),
    **{f"listener.name.sasl_ssl.{name.lower()}.sasl.jaas.config": f"{LOGIN} required;" for name in SCRAM},
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Users `app` with a password, `scram` with SCRAM, and `CN=certified` with a certificate; each may produce."""
    made = SecuredKafka(tmp_path_factory.mktemp("mechanisms"), ["app"], SETTINGS)
    with made.running(format_with_scram):
        yield made


def format_with_scram(broker: KafkaBroker) -> None:
    """Formats a broker's directory with a user in it: Kafka keeps those of SCRAM itself (KIP-900)."""
    broker.directory.mkdir(parents=True)
    users = [word for name in SCRAM for word in ("--add-scram", f"{name}=[name=scram,password={WORD}]")]
    arguments = ["format", "-t", new_kafka_id(), "-c", str(broker.write_config()), *users]
    command = KafkaJvm(str(java_binary()), kafka_classpath()).command("kafka.tools.StorageTool", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def profile(secured: SecuredKafka, way: str, password: str = "") -> str:
    """The profile for one way of proving an identity."""
    if way == "certificate":
        return secured.mutual_text(secured.authority.issue("certified"))
    if way == "PLAIN":
        return secured.profile_text("app", password)
    text = secured.profile_text("scram", password or WORD)
    return f'{text}sasl_mechanism = "{way}"\n'


@pytest.mark.parametrize(
    ("way", "user"),
    [("PLAIN", "app"), ("SCRAM-SHA-256", "scram"), ("SCRAM-SHA-512", "scram"), ("certificate", "CN=certified")],
)
async def test_each_way_to_prove_oneself_is_taken(secured: SecuredKafka, way: str, user: str) -> None:
    await secured.give(user, acls_of("service", AclScope()))
    admin = secured.seen_with(profile(secured, way)).admin()

    async def described() -> bool:
        try:
            return bool((await admin.describe_cluster()).cluster_id)
        except ClusterAccessDenied as error:
            assert error.authenticated, error  # it is known; the broker has not heard of its ACLs yet
            return False

    await until(described, f"{user} is let in by {way}")
    await admin.close()


@pytest.mark.parametrize("way", ["PLAIN", *SCRAM])
async def test_a_wrong_password_is_told_whatever_the_mechanism(secured: SecuredKafka, way: str) -> None:
    admin = secured.seen_with(profile(secured, way, "another")).admin()
    with pytest.raises(ClusterAccessDenied, match="name or password are wrong") as refused:
        await admin.describe_cluster()
    assert refused.value.problem == "credentials"
    await admin.close()
    assert not secured.own_connections(), "a closed client has none, also none that was refused"


async def test_a_mechanism_is_not_offered_and_the_error_says_so(secured: SecuredKafka, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc")
    token.chmod(0o600)
    text = (
        f'sasl_mechanism = "OAUTHBEARER"\ntoken_file = "{token}"\n'
        f'ca_file = "{secured.authority.ca_file}"\nhosts = ["127.0.0.1:*"]\n'
    )
    admin = secured.seen_with(text).admin()
    with pytest.raises(ClusterAccessDenied) as refused:
        await admin.describe_cluster()
    print(refused.value)
    assert refused.value.problem == "mechanism" and "sasl_mechanism" in refused.value.remedy
    await admin.close()
