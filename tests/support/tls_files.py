"""Certificates of Kafka's tests: what the tests' authority signs, as PEM files that nobody else may read."""

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from testbed import authority


class CertificateFiles(NamedTuple):
    """A certificate, its private key, and both in one file."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates for 127.0.0.1, and keeps them as files.

    Attributes:
        ca_file: Its own certificate.
    """

    def __init__(self, directory: Path, name: str = "an authority of tests") -> None:
        """Makes one whose files lie in a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._signer = authority.Authority.make(name)
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(self._signer.pem)

    def issue(self, name: str, *, days: int = 30, password: str = "") -> CertificateFiles:
        """A certificate with the subject `CN=name`.

        Args:
            name: Of the subject, and of its files: those of an earlier one are replaced.
            days: How long it is valid from now; negative for one that expired so long ago.
            password: Encrypts the private key.
        """
        certificate, key = self._signer.issue(
            dns=["localhost"], ips=["127.0.0.1"], name=name, lifetime=timedelta(days=days), password=password
        )
        files = CertificateFiles(*(self._directory / f"{name}{end}.pem" for end in ("", "-key", "-both")))
        for path, content in zip(files, (certificate, key, key + certificate), strict=True):
            path.write_bytes(content)
            path.chmod(0o600)
        return files
