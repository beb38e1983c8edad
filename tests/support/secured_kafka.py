"""A real broker behind TLS, SASL and an authorizer that allows nothing by default, and its users' profiles."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from braid.kafka.cluster import AioKafka
from braid.kafka.profiles.reading import read_profile_file
from braid.kafka.security import Security
from braid.kernel.ports import Acl, KafkaCluster
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import READY_SECONDS, new_broker
from testbed.ports import free_port
from tests.support.connection_counter import ConnectionCounter
from tests.support.planted import credential
from tests.support.tls_files import Authority, CertificateFiles

ADMIN: Final = "admin"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def password_of(user: str) -> str:
    """The right password of a user."""
    return credential(user)


class SecuredKafka:
    """A broker with a listener for passwords over TLS, and one for client certificates.

    Attributes:
        broker: Its process. It speaks plain text with nobody but itself, and what tests do to it.
        authority: Signs its certificate, and those of clients.
        bootstrap: For users with passwords.
        mutual: For users with client certificates.
        mutual_port: Of the same listener, without the counter before it.
        counters: Of the connections to these two.
    """

    def __init__(
        self,
        directory: Path,
        users: Sequence[str],
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] | None = None,
    ) -> None:
        """Describes one that is not started. `admin` is a user beside those named, and may do anything."""
        self.authority = Authority(directory / "tls")
        self._directory = directory
        ports = free_port(), free_port()
        self.mutual_port = ports[1]
        self.counters = tuple(ConnectionCounter(port) for port in ports)
        for counter in self.counters:
            counter.start()
        self.bootstrap, self.mutual = (f"127.0.0.1:{counter.port}" for counter in self.counters)
        self.broker = new_broker("secured", directory / "broker", jvm_options=jvm_options)
        own = f"PLAINTEXT://{self.broker.bootstrap}"
        bound = "SASL_SSL://127.0.0.1:{},SSL://127.0.0.1:{}".format(*ports)
        offered = f"SASL_SSL://{self.bootstrap},SSL://{self.mutual}"
        known = " ".join(f'user_{name}="{password_of(name)}"' for name in (ADMIN, *users))
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self.broker.own_settings |= {
            "listeners": f"{own},{bound},CONTROLLER://127.0.0.1:{self.broker.controller_port}",
            "advertised.listeners": f"{own},{offered}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{plain} required {known};",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.authority.issue("broker").both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca_file),
            "authorizer.class.name": _AUTHORIZER,
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:ANONYMOUS;User:{ADMIN}",
            **(settings or {}),
        }

    def own_connections(self) -> int:
        """Returns how many connections this process has to it."""
        ports = {counter.port for counter in self.counters}
        return sum(not ports.isdisjoint(each.raddr[1:2]) for each in psutil.Process().net_connections("tcp"))

    @contextlib.contextmanager
    def running(self, prepare: Callable[[KafkaBroker], None] | None = None) -> Iterator[None]:
        """Serves within; `prepare` gets the broker before its first start."""
        try:
            if prepare is not None:
                prepare(self.broker)
            self.broker.start()
            self.broker.wait_ready(READY_SECONDS)
            yield
        finally:
            self.broker.kill()
            for counter in self.counters:
                counter.stop()

    def profile_text(self, user: str, password: str = "") -> str:
        """The profile of a user, as a file says it; with the right password where none is given."""
        return (
            f'security_protocol = "SASL_SSL"\nusername = "{user}"\npassword = "{password or password_of(user)}"\n'
            f'ca_file = "{self.authority.ca_file}"\nhosts = ["127.0.0.1:*"]\n'
        )

    def mutual_text(self, files: CertificateFiles) -> str:
        """The profile of a user with a client certificate."""
        return (
            f'security_protocol = "SSL"\nca_file = "{self.authority.ca_file}"\nhosts = ["127.0.0.1:*"]\n'
            f'certificate_file = "{files.certificate}"\nkey_file = "{files.key}"\n'
        )

    def write_profile(self, directory: Path, name: str, text: str) -> Path:
        """Writes a profile into a directory of profiles."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}.toml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    def security(self, user: str, password: str = "") -> Security:
        """A user's credentials."""
        name = f"{user}-with-another-word" if password else user  # a file that changed would count for both
        path = self.write_profile(self._directory / "profiles", name, self.profile_text(user, password))
        return read_profile_file(user, path)

    def seen_by(self, user: str, password: str = "") -> KafkaCluster:
        """The cluster for a user; with the right password where none is given."""
        security = self.security(user, password)
        return AioKafka("test", lambda _: security).cluster(self.bootstrap, user)

    def seen_with(self, text: str) -> KafkaCluster:
        """The cluster for a profile, at the listener that it is for."""
        path = self.write_profile(self._directory / "profiles", "other", text)
        security = read_profile_file("other", path)
        bootstrap = self.mutual if security.protocol == "SSL" else self.bootstrap
        return AioKafka("test", lambda _: security).cluster(bootstrap, "other")

    async def give(self, user: str, acls: Sequence[Acl]) -> None:
        """Gives a user ACLs."""
        admin = self.seen_by(ADMIN).admin()
        try:
            await admin.create_acls(f"User:{user}", acls)
        finally:
            await admin.close()


@contextlib.contextmanager
def secured_kafka(
    directory: Path,
    users: Sequence[str],
    settings: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] | None = None,
) -> Iterator[SecuredKafka]:
    """One that serves; killed at the end."""
    made = SecuredKafka(directory, users, settings, jvm_options)
    with made.running():
        yield made
