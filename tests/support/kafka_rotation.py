"""Rotations of certificates and authorities between a real broker and everybody who connects to it.

A CA changes as it does for services: both sides trust the old one and the new one; then come leaves of the new one;
then it is trusted alone. The broker is told by its dynamic settings to read its files again (KIP-226). Kafka ends no
connection when a certificate changes, so each step cuts all of them: every client shakes hands by the new files.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiokafka.protocol.admin import AlterConfigsRequest
from cryptography import x509

from braid.kafka.protocol.wire import ANY_BROKER, Wire
from braid.kafka.security import Security
from testbed.authority import Authority
from testbed.patience import until
from tests.support.secured_kafka import SecuredKafka
from tests.support.tls_files import CertificateFiles

_BROKER: Final = 4  # a kind of resource, as Kafka numbers them
_OWN_SECONDS: Final = 10.0


class KafkaRotation:
    """The files of a broker and of its clients, replaced as cert-manager does.

    Attributes:
        client: What every client shows.
        rotations: How often files changed.
    """

    def __init__(self, secured: SecuredKafka, user: str, cas: int) -> None:
        """Writes the first files; the broker has not been started yet.

        Args:
            secured: The broker.
            user: Name in the clients' certificates.
            cas: How many authorities there will be, one after the other.
        """
        self.client: CertificateFiles = secured.authority.issue(user)
        self.rotations = 0
        self._broker = secured.authority.issue("broker").both
        self._trusted = secured.authority.ca_file
        self._user = user
        self._secured = secured
        self._cas = [Authority.make(f"CA {number}") for number in range(cas + 1)]
        self._write(self._cas[0], self._cas[0])

    async def rotate_leaf(self, worked_on: Callable[[], Awaitable[None]]) -> None:
        """Issues new leaves by the present CA."""
        await self._change(worked_on, self._cas[0], self._cas[0])

    async def rotate_ca(self, worked_on: Callable[[], Awaitable[None]]) -> None:
        """Moves on to the next CA, in three steps."""
        old, new = self._cas[:2]
        await self._change(worked_on, old, old, new)
        await self._change(worked_on, new, old, new)
        await self._change(worked_on, new, new)
        del self._cas[0]

    async def _change(self, worked_on: Callable[[], Awaitable[None]], by: Authority, *trusted: Authority) -> None:
        shown = self._write(by, *trusted)
        await self._reload()
        await until(lambda: self._is_shown(shown), "the broker shows its new certificate", poll=0.05)
        for counter in self._secured.counters:
            counter.cut()
        self.rotations += 1
        await worked_on()

    def _write(self, by: Authority, *trusted: Authority) -> int:
        """Replaces every file as a whole; returns the serial number of the broker's certificate."""
        certificate, key = by.issue(dns=["localhost"], ips=["127.0.0.1"], name="broker")
        own, own_key = by.issue(name=self._user)
        _replace(self._trusted, b"".join(each.pem for each in trusted))
        _replace(self._broker, key + certificate)
        _replace(self.client.key, own_key)
        _replace(self.client.certificate, own)
        return x509.load_pem_x509_certificate(certificate).serial_number

    async def _reload(self) -> None:
        """Sets the broker's files to what they are: it reads them again."""
        files = {"keystore": self._broker, "truststore": self._trusted}
        settings = [
            (f"listener.name.ssl.ssl.{store}.{name}", value)
            for store, path in files.items()
            for name, value in (("location", str(path)), ("type", "PEM"))
        ]
        wire = Wire(self._secured.broker.bootstrap, "operator", Security(), _OWN_SECONDS)
        try:
            answer = await wire.ask(ANY_BROKER, AlterConfigsRequest([(_BROKER, "1", settings)]))
        finally:
            await wire.close()
        [(code, message, _, _)] = answer.resources
        assert code == 0, message

    async def _is_shown(self, serial: int) -> bool:
        """Whether the listener shows a certificate; it is asked past the proxy that counts connections."""
        context = ssl.create_default_context(cafile=str(self._trusted))
        context.load_cert_chain(self.client.certificate, self.client.key)
        port = self._secured.mutual_port
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except OSError:
            return False
        tls = writer.get_extra_info("ssl_object")
        shown = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True)).serial_number
        writer.close()
        return shown == serial


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}")
    part.touch(mode=0o600)
    part.write_bytes(content)
    part.replace(path)
