"""Certificates for the processes of a mesh that a test or benchmark starts one by one, and rights that are enforced."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from braid.host.tls.paths import Tls, environment_of
from testbed.authority import ALICE, Authority

_SERVICES: Final = "spiffe://test.local/service"


class Identities:
    """An authority, a certificate for each replica, and one for an admin that calls them.

    Attributes:
        caller: The admin's files.
    """

    def __init__(self, directory: Path) -> None:
        """Writes files below a directory, which it makes."""
        self._authority = Authority.make()
        self._directory = directory
        self.caller: Tls = self._authority.client(directory / "caller", ALICE)

    def of_replica(self, instance: str) -> Mapping[str, str]:
        """Variables for a replica's process: its certificate, and enforced rights."""
        tls = self._authority.service(self._directory / instance, f"{_SERVICES}/{instance}")
        return {**environment_of(tls), "BRAID_ACCESS": "enforced", "BRAID_ADMINS": ALICE}

    def of_caller(self) -> Mapping[str, str]:
        """Variables for the process of an application, or of a person."""
        return environment_of(self.caller)
