"""Settings every service process has: from the environment (`BRAID_…`) and a TOML file named by `BRAID_CONFIG`.

The environment wins. Services extend `Settings` in their `config.py`.
"""

import os
import sys
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.archive import ARCHIVE_RETENTION_DAYS
from braid.kernel.limits.store import SESSION_TTL_SECONDS

CONFIG_VARIABLE = "BRAID_CONFIG"
_WRONG_USAGE = 2


class Settings(BaseSettings):
    """What a service process needs to know.

    Attributes:
        store: Event store: `sqlite:///path/of/file` or `etcd://host:port,host:port`.
        listen: Where control RPCs are served, `host:port`; port 0 chooses one.
        advertise: How others reach it, `host:port`; by default where it listens.
        metrics: Where `/metrics` is served, `host:port`; port 0 chooses one.
        instance: Name in the directory (`registry-0`).
        ready_file: Written once serving: JSON with `address`, `metrics` and `pid`.
        parent_pid: The process ends when this one is no longer its parent; 0 for never.
        session_ttl_seconds: How long the store waits for a silent leader.
        log_level: `debug`, `info`, `warning` or `error`.
        archive: Where events go before snapshots take them from the store: `file:///path/of/directory`, of this replica
            alone, or `s3://bucket/prefix`, which all replicas share. Without one they are gone.
        archive_days: How long they are kept there.
        clock_offset_file: For fault tests: a file with the milliseconds that this process's wall clock is to be off.
    """

    model_config = SettingsConfigDict(env_prefix="BRAID_", extra="ignore", frozen=True)

    store: str
    instance: str
    listen: str = "127.0.0.1:0"
    advertise: str = ""
    metrics: str = "127.0.0.1:0"
    ready_file: Path | None = None
    parent_pid: int = Field(default=0, ge=0)
    session_ttl_seconds: float = Field(default=SESSION_TTL_SECONDS, gt=0)
    log_level: str = "info"
    archive: str = ""
    archive_days: float = Field(default=ARCHIVE_RETENTION_DAYS, gt=0)
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
        """Arguments before the environment before the file."""
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

    @field_validator("listen", "metrics", "advertise")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if value and not (host and port.isdecimal() and int(port) < 1 << 16):
            raise ValueError(f"{value!r} is not host:port")
        return value

    @field_validator("log_level")
    @classmethod
    def _is_a_level(cls, value: str) -> str:
        if value not in ("debug", "info", "warning", "error"):
            raise ValueError(f"{value!r} is none of debug, info, warning, error")
        return value


S = TypeVar("S", bound=Settings)


def settings_or_exit(kind: type[S]) -> S:
    """Reads a service's settings; when they are wrong, says which and how, and ends the process with code 2."""
    try:
        return kind()  # type: ignore[call-arg]  # read from the environment
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(str(part) for part in problem["loc"])
            what = "is not set" if problem["type"] == "missing" else problem["msg"]
            print(f"BRAID_{name.upper()}: {what}", file=sys.stderr)
        print(f"set it in the environment, or as `{name}` in the file {CONFIG_VARIABLE} names", file=sys.stderr)
        sys.exit(_WRONG_USAGE)


def split_address(address: str) -> tuple[str, int]:
    """`host:port` as its two parts."""
    host, _, port = address.rpartition(":")
    return host, int(port)
