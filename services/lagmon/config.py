"""Settings of a lag monitor's process, beside those of every service."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from braid.kernel.limits.kept_lag import KEPT_LAG_BYTES, KEPT_LAG_BYTES_MIN
from braid.runtime.settings import Settings


class LagmonSettings(Settings):
    """Settings of a lag monitor; it learns clusters and groups from the registry and the assigner.

    Attributes:
        kept_lag: Directory in which lag and rates are kept: 10 seconds for a day, 5 minutes for 30 days. Without one
            they are kept in memory, and end with the process. It may be deleted at any time.
        kept_lag_bytes: What they may take there; beyond it the oldest go.
        lag_exporters: Exporters whose names and labels lag has among the metrics, too, separated by commas:
            `kafka_exporter`, `kafka_lag_exporter`, `kminion`. Empty for none.
    """

    kept_lag: Path | None = None
    kept_lag_bytes: int = Field(default=KEPT_LAG_BYTES, ge=KEPT_LAG_BYTES_MIN)
    lag_exporters: Annotated[tuple[Literal["kafka_exporter", "kafka_lag_exporter", "kminion"], ...], NoDecode] = (
        "kafka_exporter",
    )

    @field_validator("kept_lag", mode="before")
    @classmethod
    def _nothing_is_none(cls, value: object) -> object:
        return value or None

    @field_validator("lag_exporters", mode="before")
    @classmethod
    def _by_commas(cls, value: object) -> object:
        return [name for each in value.split(",") if (name := each.strip())] if isinstance(value, str) else value

    @property
    def kept_lag_directory(self) -> Path | None:
        """The directory of this instance in this mesh; several meshes may share `kept_lag`. None to keep in memory."""
        mesh = hashlib.sha256(self.store.encode()).hexdigest()[:12]
        return self.kept_lag / f"{self.instance}-{mesh}" if self.kept_lag is not None else None
