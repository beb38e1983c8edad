"""How a replica controls access, and the principals that are admins by a file."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from braid.kernel.access.grants import ServicePrincipals, check_principal
from braid.kernel.errors import Invalid
from braid.kernel.limits.access.rights import ADMINS_FILE_BYTES_MAX, ADMINS_MAX


class AccessMode(Enum):
    """Whether what is not granted is refused."""

    OPEN = "open"
    ENFORCED = "enforced"


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The settings of a service about access.

    Attributes:
        mode: In `open`, only grants themselves are guarded.
        admins: Principals that are admins without a grant.
        admins_file: Names more of them, one a line; read again while the process runs.
        services: Whom the mesh takes for its own services.
    """

    mode: AccessMode = AccessMode.OPEN
    admins: Collection[str] = ()
    admins_file: Path | None = None
    services: ServicePrincipals = field(default_factory=ServicePrincipals)


def read_admins(path: Path) -> Collection[str]:
    """The principals that a file names, one a line; empty lines and those that begin with `#` say nothing.

    Raises:
        Invalid: it cannot be read, is too large, names too many, or a line is no principal; the field is its line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(ADMINS_FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read the admins file {path}: {error}", field="admins_file") from error
    if len(data) > ADMINS_FILE_BYTES_MAX:
        raise Invalid(f"{path} is larger than {ADMINS_FILE_BYTES_MAX} bytes", field="admins_file")
    lines = {number: line.strip() for number, line in enumerate(text.splitlines(), 1)}
    named = [check_principal(line, f"{path}:{number}") for number, line in lines.items() if line and line[0] != "#"]
    return check_admins(named, str(path))


def check_admins(principals: Collection[str], field: str) -> Collection[str]:
    """Returns principals that are few enough. Raises `Invalid`."""
    if len(principals) > ADMINS_MAX:
        raise Invalid(f"it names more than {ADMINS_MAX} admins", field=field, remedy="name a few, who grant the rest")
    return frozenset(principals)
