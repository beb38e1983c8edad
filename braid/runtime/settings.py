"""Settings of every service process, from the environment (`BRAID_…`) and the TOML file named by `BRAID_CONFIG`.

The environment takes precedence. Services extend `Settings` in their `config.py`.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from braid.host.addresses import is_loopback
from braid.host.store_credentials import CA_VARIABLE as STORE_CA_VARIABLE
from braid.host.store_credentials import CERTIFICATE_VARIABLE as STORE_CERTIFICATE_VARIABLE
from braid.host.store_credentials import KEY_VARIABLE as STORE_KEY_VARIABLE
from braid.host.store_credentials import StoreCredentials
from braid.host.tls.paths import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, Tls, tls_of_files
from braid.host.tls.principal import own_principal
from braid.kernel.access.grants import ServicePrincipals, check_principal
from braid.kernel.audit.forms import Reads
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.access.audit import AUDIT_DAYS, AUDIT_RECORDS, AUDIT_RECORDS_MAX
from braid.kernel.limits.access.tokens import TOKEN_LEEWAY_SECONDS
from braid.kernel.limits.archive import ARCHIVE_RETENTION_DAYS
from braid.kernel.limits.rpc import TLS_CONNECTION_SECONDS, TLS_RELOAD_SECONDS
from braid.kernel.limits.store import SESSION_TTL_SECONDS
from braid.kernel.principals import TOKEN, trust_domain
from braid.runtime.access.settings import AccessMode, AccessSettings, check_admins
from braid.runtime.audit.settings import AuditSettings
from braid.runtime.tokens.settings import ALGORITHMS_DEFAULT, TokenSettings, check_tokens

CONFIG_VARIABLE = "BRAID_CONFIG"
_WRONG_USAGE = 2
_STORE_FILES = ("store_tls_certificate", "store_tls_key", "store_tls_ca", "store_password_file")
_TLS_FILES = ("tls_certificate", "tls_key", "tls_ca")
_MAY_BE_EMPTY = (*_TLS_FILES, "tls_mode", "access", "metrics_tls", "token_keys_ca", "admins_file", *_STORE_FILES)


class Settings(BaseSettings):
    """Settings of a service process.

    Attributes:
        store: Event store: `sqlite:///path/of/file`, `etcd+tls://host:port,host:port`, or `etcd://…` in plain text.
        store_tls_certificate: What this replica shows an etcd over TLS, a PEM file; by default `tls_certificate`.
        store_tls_key: Its private key, a PEM file that nobody else may read; by default `tls_key`.
        store_tls_ca: The authorities that sign etcd's certificates, a PEM file; by default `tls_ca`.
        store_user: User of etcd. Without one, etcd takes the certificate's common name for it.
        store_password_file: Its password, a line in a file that nobody else may read. It may hold two, while the
            password changes: each is tried.
        listen: Where control RPCs are served, `host:port`; port 0 chooses one.
        advertise: How others reach it, `host:port`; by default where it listens.
        metrics: Where `/metrics` is served, `host:port`; port 0 chooses one.
        metrics_tls: `off` serves metrics in plain text; `server` over TLS with this replica's certificate; `mutual`
            also asks clients for one of an authority in `tls_ca`. By default `off` on a loopback address or without
            a certificate, else `server`.
        instance: Name in the directory (`registry-0`).
        ready_file: Written once serving: JSON with `address`, `metrics` and `pid`.
        parent_pid: The process ends when this one is no longer its parent; 0 for never.
        session_ttl_seconds: How long the store waits for a silent leader.
        log_level: `debug`, `info`, `warning` or `error`.
        archive: Where events go before snapshots take them from the store: `file:///path/of/directory`, of this replica
            alone, or `s3://bucket/prefix`, which all replicas share. Without one they are gone.
        archive_days: How long they are kept there.
        tls_mode: `off` serves plaintext; `permissive` serves plaintext at `listen` and mutual TLS at `tls_listen`, for
            the time in which a running mesh and its clients change over; `required` serves mutual TLS alone. By default
            `required` where a certificate is named, else `off`, at loopback addresses alone: what other machines reach
            serves plain text only where this says so.
        tls_certificate: The certificate of this replica and the intermediate ones, a PEM file.
        tls_key: Its private key, a PEM file that nobody else may read.
        tls_ca: The authorities that sign the certificates of clients and other replicas, a PEM file.
        tls_reload_seconds: The three files are looked at again after so long.
        tls_connection_seconds: A connection over mutual TLS takes no new calls after about so long, and its streams end
            within as long again: an authority that was removed is gone by then.
        tls_listen: Where mutual TLS is served in the mode `permissive`, `host:port`; by default any port at the host of
            `listen`.
        tls_advertise: How others reach that, `host:port`; by default the host of `advertise` and the port of
            `tls_listen`.
        tls_clients: `certificate`: clients prove who they are by certificates alone. `either`: at `listen` they show
            tokens, which a certificate is not asked for, and mutual TLS is served at `tls_listen`, for certificates and
            among services. It needs the mode `required`, and the settings of tokens.
        token_issuer: Whose tokens are taken in the mode `either`: what stands in each as `iss`, to the letter.
        token_audience: For whom they must be: one of those that stand in each as `aud`.
        token_keys: The issuer's public keys (a JWK set): an https URL, or the path of a file.
        token_keys_ca: The authorities that sign the certificate of that URL, a PEM file; the system's by default.
        token_claim: The claim that names the caller; its principal is `jwt:`, then `token_prefix`, then that name.
        token_prefix: Stands before the name.
        token_algorithms: Signatures that count, separated by commas.
        token_leeway_seconds: How long a token counts after its end, and before its beginning: clocks differ.
        health_listen: Where health checks alone are answered, without a client certificate, `host:port`. By default any
            port of 127.0.0.1 in the mode `required`, and none in the others: `listen` answers them there.
        access: `open`: everybody may do everything but grant rights. `enforced`: what is not granted is refused; it
            needs mutual TLS, by which callers prove who they are. By default `open` at loopback addresses and in plain
            text; a replica with a certificate that other machines reach does not start without it.
        admins: Principals that are admins without a grant, separated by commas; they grant the first rights.
        admins_file: A file that names more of them, one a line. It is read again while the process runs.
        service_principals: Principals that count as services of the mesh beside `spiffe://TRUST-DOMAIN/service/…`,
            separated by commas; one that ends with `*` is all that begin so.
        audit: `on` records every change and every refusal, in the event store; `off` records nothing.
        audit_reads: Which reads are recorded, too: `none`, `content` (of dead letters) or `all`.
        audit_records: How many records of each kind this replica keeps in the store. Older changes go to the archive.
        audit_days: How long they are kept in the store.
        audit_log: A file to which records are appended as JSON lines, too; `-` is the standard output. By default none.
        clock_offset_file: For fault tests: a file with the milliseconds that this process's wall clock is to be off.
    """

    model_config = SettingsConfigDict(env_prefix="BRAID_", extra="ignore", frozen=True)

    store: str
    store_tls_certificate: Path | None = None
    store_tls_key: Path | None = None
    store_tls_ca: Path | None = None
    store_user: str = ""
    store_password_file: Path | None = None
    instance: str
    listen: str = "127.0.0.1:0"
    advertise: str = ""
    metrics: str = "127.0.0.1:0"
    metrics_tls: Literal["off", "server", "mutual"] | None = None
    ready_file: Path | None = None
    parent_pid: int = Field(default=0, ge=0)
    session_ttl_seconds: float = Field(default=SESSION_TTL_SECONDS, gt=0)
    log_level: str = "info"
    archive: str = ""
    archive_days: float = Field(default=ARCHIVE_RETENTION_DAYS, gt=0)
    tls_mode: Literal["off", "permissive", "required"] | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_reload_seconds: float = Field(default=TLS_RELOAD_SECONDS, gt=0, allow_inf_nan=False)
    tls_connection_seconds: float = Field(default=TLS_CONNECTION_SECONDS, ge=1, allow_inf_nan=False)
    tls_listen: str = ""
    tls_advertise: str = ""
    tls_clients: Literal["certificate", "either"] = "certificate"
    token_issuer: str = ""
    token_audience: str = ""
    token_keys: str = ""
    token_keys_ca: Path | None = None
    token_claim: str = "sub"
    token_prefix: str = ""
    token_algorithms: Annotated[tuple[str, ...], NoDecode] = ALGORITHMS_DEFAULT
    token_leeway_seconds: float = Field(default=TOKEN_LEEWAY_SECONDS, ge=0, le=600, allow_inf_nan=False)
    health_listen: str = ""
    access: Literal["open", "enforced"] | None = None
    admins: Annotated[tuple[str, ...], NoDecode] = ()
    admins_file: Path | None = None
    service_principals: Annotated[tuple[str, ...], NoDecode] = ()
    audit: Literal["on", "off"] = "on"
    audit_reads: Literal["none", "content", "all"] = "none"
    audit_records: int = Field(default=AUDIT_RECORDS, ge=100, le=AUDIT_RECORDS_MAX)
    audit_days: float = Field(default=AUDIT_DAYS, gt=0, allow_inf_nan=False)
    audit_log: str = ""
    clock_offset_file: Path | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Orders the sources: arguments, then the environment, then the file."""
        path = os.environ.get(CONFIG_VARIABLE, "")
        file = (TomlConfigSettingsSource(settings_cls, path),) if path else ()
        return init_settings, env_settings, *file

    @field_validator("instance")
    @classmethod
    def _instance_is_a_name(cls, value: str) -> str:
        try:
            return check_name(value, "instance")
        except Invalid as error:
            raise ValueError(str(error)) from error

    @field_validator(*_MAY_BE_EMPTY, mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return value or None  # a variable that is set to nothing names no file

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        try:
            named = self.tls is not None
            self.store_credentials()
        except Invalid as error:
            raise ValueError(str(error)) from error
        if self.tls_mode in ("permissive", "required") and not named:
            raise ValueError(f"BRAID_TLS_CERTIFICATE: is not set, though BRAID_TLS_MODE is {self.tls_mode}")
        if self.metrics_tls in ("server", "mutual") and self.tls is None:
            raise ValueError(f"BRAID_METRICS_TLS: {self.metrics_tls} needs BRAID_TLS_CERTIFICATE, _KEY and _CA")
        return self

    @property
    def tls(self) -> Tls | None:
        """The files of mutual TLS; None where none is named, or the mode is `off`."""
        named = self._named_tls()
        return None if self.tls_mode == "off" else named

    def _named_tls(self) -> Tls | None:
        paths = [str(path or "") for path in (self.tls_certificate, self.tls_key, self.tls_ca)]
        names = (CERTIFICATE_VARIABLE, KEY_VARIABLE, CA_VARIABLE)
        return tls_of_files(*paths, names=names, reload_seconds=self.tls_reload_seconds)

    def store_credentials(self) -> StoreCredentials:
        """The replica's credentials for an event store server. Raises `Invalid` where only a part is named."""
        paths = [str(path or "") for path in (self.store_tls_certificate, self.store_tls_key, self.store_tls_ca)]
        names = (STORE_CERTIFICATE_VARIABLE, STORE_KEY_VARIABLE, STORE_CA_VARIABLE)
        own = tls_of_files(*paths, names=names, reload_seconds=self.tls_reload_seconds)
        return StoreCredentials(own or self._named_tls(), self.store_user, self.store_password_file)

    @property
    def served_metrics_tls(self) -> Literal["off", "server", "mutual"]:
        """How metrics are served, where the setting leaves it open too."""
        if self.metrics_tls is not None:
            return self.metrics_tls
        return "off" if self.tls is None or is_loopback(split_address(self.metrics)[0]) else "server"

    @property
    def permissive(self) -> bool:
        """Whether plaintext is served beside mutual TLS."""
        return self.tls_mode == "permissive"

    @field_validator("listen", "metrics", "advertise", "tls_listen", "tls_advertise", "health_listen")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if value and not (host and port.isdecimal() and int(port) < 1 << 16):
            raise ValueError(f"{value!r} is not host:port")
        return value

    @field_validator("admins", "service_principals", "token_algorithms", mode="before")
    @classmethod
    def _is_a_list(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _access_is_whole(self) -> Self:
        try:
            for principal in self.admins:
                check_principal(principal, "admins")
            for principal in self.service_principals:
                _check_service(principal)
            check_admins(self.admins, "admins")
        except Invalid as error:
            raise ValueError(f"BRAID_{error.field.upper()}: {error.message} ({error.remedy})") from error
        if self.access == "enforced" and self.tls is None:
            raise ValueError("BRAID_ACCESS: enforced needs mutual TLS: set BRAID_TLS_CERTIFICATE, _KEY and _CA")
        return self

    @model_validator(mode="after")
    def _is_open_by_word_alone(self) -> Self:
        """A replica that other machines reach is open only if its settings say so."""
        served = [each for each in (self.listen, self.tls_listen) if each]
        if all(is_loopback(split_address(each)[0]) for each in served):
            return self
        if self.tls is None and self.tls_mode is None:
            reason = "is not set, and other machines reach this replica; BRAID_TLS_MODE=off serves them plain text"
            raise ValueError(f"{CERTIFICATE_VARIABLE}: {reason}")
        if self.tls is not None and self.access is None:
            reason = "is not set, and other machines reach this replica: set it to enforced, or to open for now"
            raise ValueError(f"BRAID_ACCESS: {reason}")
        return self

    @model_validator(mode="after")
    def _tokens_are_whole(self) -> Self:
        if self.tls_clients != "either":
            return self
        if self.tls is None or self.permissive:
            raise ValueError("BRAID_TLS_CLIENTS: either needs BRAID_TLS_MODE=required: tokens travel over TLS alone")
        try:
            check_tokens(self._tokens())
        except Invalid as error:
            raise ValueError(f"BRAID_{error.field.upper()}: {error.message} ({error.remedy})") from error
        return self

    @property
    def tokens(self) -> TokenSettings | None:
        """Whose tokens are taken; None where none are."""
        return self._tokens() if self.tls_clients == "either" else None

    def _tokens(self) -> TokenSettings:
        return TokenSettings(
            issuer=self.token_issuer,
            audience=self.token_audience,
            keys=self.token_keys,
            keys_ca=self.token_keys_ca,
            claim=self.token_claim,
            prefix=self.token_prefix,
            algorithms=self.token_algorithms,
            leeway_seconds=self.token_leeway_seconds,
        )

    def access_settings(self) -> AccessSettings:
        """How access is controlled. Services are those of the trust domain of the replica's own certificate.

        Raises:
            Invalid: the certificate cannot be read.
            Unauthenticated: it names nobody.
        """
        domain = trust_domain(own_principal(self.tls)) if self.tls is not None else ""
        services = ServicePrincipals(domain, self.service_principals)
        return AccessSettings(AccessMode(self.access or "open"), self.admins, self.admins_file, services)

    def audit_settings(self) -> AuditSettings | None:
        """Which calls are recorded, and for how long; None where none are."""
        if self.audit == "off":
            return None
        return AuditSettings(Reads(self.audit_reads), self.audit_records, self.audit_days, self.audit_log)

    @field_validator("log_level")
    @classmethod
    def _is_a_level(cls, value: str) -> str:
        if value not in ("debug", "info", "warning", "error"):
            raise ValueError(f"{value!r} is none of debug, info, warning, error")
        return value


def _check_service(principal: str) -> None:
    """Raises `Invalid` for what names no service: a token never does."""
    check_principal(principal.removesuffix("*") + "x", "service_principals")
    if principal.startswith(TOKEN):
        remedy = "name principals of certificates"
        raise Invalid(f"{principal!r} is of a token", field="service_principals", remedy=remedy)


S = TypeVar("S", bound=Settings)


def settings_or_exit(kind: type[S]) -> S:
    """Reads a service's settings; if they are wrong, prints which and why, and exits with code 2."""
    try:
        return kind()  # type: ignore[call-arg]  # read from the environment
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(str(part) for part in problem["loc"])
            what = "is not set" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
            print(f"BRAID_{name.upper()}: {what}" if name else what, file=sys.stderr)
        print(f"set it in the environment, or as `{name}` in the file {CONFIG_VARIABLE} names", file=sys.stderr)
        sys.exit(_WRONG_USAGE)


def split_address(address: str) -> tuple[str, int]:
    """Splits `host:port` into its two parts."""
    host, _, port = address.rpartition(":")
    return host, int(port)
