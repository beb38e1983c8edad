"""Which certificate a process shows and whom it trusts: the paths of three PEM files, and where they are named.

Contents are read in `tls_files`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import TLS_RELOAD_SECONDS

CERTIFICATE_VARIABLE: Final = "BRAID_TLS_CERTIFICATE"
KEY_VARIABLE: Final = "BRAID_TLS_KEY"
CA_VARIABLE: Final = "BRAID_TLS_CA"
RELOAD_VARIABLE: Final = "BRAID_TLS_RELOAD_SECONDS"


@dataclass(frozen=True, slots=True)
class Tls:
    """The PEM files of mutual TLS. They are read when they are needed, and again when they change.

    Attributes:
        certificate: This side's certificate, then the intermediate ones up to its authority.
        key: Its private key, without a password, which nobody else may read.
        ca: The authorities that may sign the other side's certificate.
        reload_seconds: The files are looked at again after so long.
    """

    certificate: Path
    key: Path
    ca: Path
    reload_seconds: float = TLS_RELOAD_SECONDS

    def __post_init__(self) -> None:
        if not 0 < self.reload_seconds < float("inf"):
            raise Invalid(f"{self.reload_seconds:g} is not positive", field="tls.reload_seconds", remedy="give seconds")


def tls_of_files(
    certificate: str, key: str, ca: str, *, names: tuple[str, str, str], reload_seconds: float = TLS_RELOAD_SECONDS
) -> Tls | None:
    """`Tls` of three paths; None when none is given.

    Args:
        certificate: Path of the certificate; empty when it is not given. So are `key` and `ca`.
        key: Path of the private key.
        ca: Path of the authorities.
        names: What errors call the three.
        reload_seconds: As in `Tls`.

    Raises:
        Invalid: some are given and others are not; the field is the first one missing.
    """
    given = {name: path for name, path in zip(names, (certificate, key, ca), strict=True) if path}
    if not given:
        return None
    for name in names:
        if name not in given:
            what = f"is not set, though {next(iter(given))} is"
            raise Invalid(what, field=name, remedy=f"mutual TLS needs {names[0]}, {names[1]} and {names[2]}")
    found = [Path(given[name]).expanduser() for name in names]
    return Tls(found[0], found[1], found[2], reload_seconds)


def tls_of_environment(environment: Mapping[str, str]) -> Tls | None:
    """`Tls` of BRAID_TLS_CERTIFICATE, BRAID_TLS_KEY, BRAID_TLS_CA and BRAID_TLS_RELOAD_SECONDS; None where none is set.

    Raises:
        Invalid: some of the three files are named and others are not, or the seconds are no positive number.
    """
    names = (CERTIFICATE_VARIABLE, KEY_VARIABLE, CA_VARIABLE)
    certificate, key, ca = (environment.get(name, "") for name in names)
    return tls_of_files(certificate, key, ca, names=names, reload_seconds=reload_seconds_of(environment))


def environment_of(tls: Tls | None) -> Mapping[str, str]:
    """Variables that name the files, for a process of its own; `tls_of_environment` reads them. None without files."""
    if tls is None:
        return {}
    return {
        CERTIFICATE_VARIABLE: str(tls.certificate),
        KEY_VARIABLE: str(tls.key),
        CA_VARIABLE: str(tls.ca),
        RELOAD_VARIABLE: str(tls.reload_seconds),
    }


def reload_seconds_of(environment: Mapping[str, str]) -> float:
    """How often files are looked at, by BRAID_TLS_RELOAD_SECONDS. Raises `Invalid` for no positive number."""
    text = environment.get(RELOAD_VARIABLE, "")
    try:
        seconds = float(text) if text else TLS_RELOAD_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise Invalid(f"{text!r} is no positive number of seconds", field=RELOAD_VARIABLE, remedy="for example 10")
    return seconds
