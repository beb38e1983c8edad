"""Settings of a lag monitor's process, beside those of every service."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from braid.host.addresses import is_loopback
from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.lagmon.alert_outlets import OUTLETS_MAX
from braid.kernel.limits.lagmon.kept_lag import KEPT_LAG_BYTES, KEPT_LAG_BYTES_MIN
from braid.runtime.settings import Settings


class AlertOutlet(BaseModel):
    """A webhook or an Alertmanager that alerts are sent to.

    Attributes:
        name: Names it in metrics, logs and events.
        kind: `webhook` or `alertmanager`.
        url: Where it is, `https://…`; of an Alertmanager without `/api/v2/alerts`. It may hold a secret, and is never
            shown.
        token_file: A file with a bearer token, which nobody else may read.
        signing_key_file: A file with keys that sign each post of a webhook, `whsec_…`, one a line.
        ca_file: The authorities that sign its certificate, a PEM file; the system's by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: Literal["webhook", "alertmanager"]
    url: str
    token_file: str = ""
    signing_key_file: str = ""
    ca_file: str = ""

    @field_validator("name")
    @classmethod
    def _name_is_one(cls, value: str) -> str:
        try:
            return check_name(value, "name")
        except Invalid as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        try:
            parts = urlsplit(self.url)
            port_is_one = parts.port != 0
        except ValueError:
            port_is_one = False
        if not port_is_one:
            raise ValueError(f"the url of outlet {self.name} has no host and port that can be")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the url of outlet {self.name} does not begin with https:// or http:// and a host")
        if parts.username is not None or parts.fragment:
            raise ValueError(f"the url of outlet {self.name} has a user or a fragment: use token_file")
        if parts.scheme == "http" and self.token_file and not is_loopback(parts.hostname):
            raise ValueError(f"the token of outlet {self.name} would travel in plain text: use https://")
        if parts.scheme == "http" and self.ca_file:
            raise ValueError(f"outlet {self.name} has a ca_file, and its url no TLS")
        if self.signing_key_file and self.kind != "webhook":
            raise ValueError(f"outlet {self.name} is no webhook: only posts to webhooks are signed")
        return self


class LagmonSettings(Settings):
    """Settings of a lag monitor; it learns clusters and groups from the registry and the assigner.

    Attributes:
        kept_lag: Directory in which lag and rates are kept: 10 seconds for a day, 5 minutes for 30 days. Without one
            they are kept in memory, and end with the process. It may be deleted at any time.
        kept_lag_bytes: What they may take there; beyond it the oldest go.
        lag_exporters: Exporters whose names and labels lag has among the metrics, too, separated by commas:
            `kafka_exporter`, `kafka_lag_exporter`, `kminion`. Empty for none.
        alert_outlets: Webhooks and Alertmanagers that the leader sends alerts to: a list of tables with `name`, `kind`,
            `url`, and if wanted `token_file`, `signing_key_file`, `ca_file`. In the environment it is JSON.
        alert_runbooks: Where the pages about alerts are, for people who are sent one: a URL,
            or the path in this project.
    """

    kept_lag: Path | None = None
    kept_lag_bytes: int = Field(default=KEPT_LAG_BYTES, ge=KEPT_LAG_BYTES_MIN)
    lag_exporters: Annotated[tuple[Literal["kafka_exporter", "kafka_lag_exporter", "kminion"], ...], NoDecode] = (
        "kafka_exporter",
    )
    alert_outlets: Annotated[tuple[AlertOutlet, ...], NoDecode] = Field(default=(), max_length=OUTLETS_MAX)
    alert_runbooks: str = Field(default="docs/runbooks", max_length=512)

    @field_validator("kept_lag", mode="before")
    @classmethod
    def _nothing_is_none(cls, value: object) -> object:
        return value or None

    @field_validator("lag_exporters", mode="before")
    @classmethod
    def _by_commas(cls, value: object) -> object:
        return [name for each in value.split(",") if (name := each.strip())] if isinstance(value, str) else value

    @field_validator("alert_outlets", mode="before")
    @classmethod
    def _outlets_are_json(cls, value: object) -> object:
        """Reads the variable; its value is in no error, because URLs may hold secrets."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "[]")
        except (ValueError, RecursionError):
            raise ValueError("is no JSON; it is a list of outlets") from None

    @field_validator("alert_outlets")
    @classmethod
    def _names_differ(cls, value: tuple[AlertOutlet, ...]) -> tuple[AlertOutlet, ...]:
        if len({each.name for each in value}) < len(value):
            raise ValueError("two outlets have the same name")
        return value

    @property
    def kept_lag_directory(self) -> Path | None:
        """The directory of this instance in this mesh; several meshes may share `kept_lag`. None to keep in memory."""
        mesh = hashlib.sha256(self.store.encode()).hexdigest()[:12]
        return self.kept_lag / f"{self.instance}-{mesh}" if self.kept_lag is not None else None
