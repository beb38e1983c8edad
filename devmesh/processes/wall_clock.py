"""Wall clocks of service replicas, set off from the machine's. They last until the mesh starts anew."""

import re
from pathlib import Path
from typing import Final

from braid.kernel.errors import Invalid
from devmesh.files import remove, write_whole

SETTING: Final = "BRAID_CLOCK_OFFSET_FILE"
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OFFSET: Final = re.compile(r"([+-])(\d{1,6})([smhd])")


def offset_file(directory: Path) -> Path:
    """Where the replica with this directory reads how far its wall clock is off, in milliseconds."""
    return directory / "clock-offset"


def parse_offset(text: str) -> int:
    """Milliseconds of `+1h`, `-8d`, `+90s`, `-5m`; 0 of `0`. Raises `Invalid`."""
    if text == "0":
        return 0
    if (match := _OFFSET.fullmatch(text)) is None:
        raise Invalid(f"{text!r} is no offset of a clock", field="OFFSET", remedy="write +1h, -8d, +90s, -5m or 0")
    sign, number, unit = match.groups()
    return int(f"{sign}{number}") * _UNITS_MS[unit]


def set_off(directory: Path, offset_ms: int) -> None:
    """Sets a replica's wall clock off from the machine's; with 0 it is the machine's again."""
    if offset_ms:
        write_whole(offset_file(directory), str(offset_ms))
    else:
        remove(offset_file(directory))


def offset_text(offset_ms: int) -> str:
    """An offset for people."""
    if not offset_ms:
        return "the machine's"
    direction = "ahead of" if offset_ms > 0 else "behind"
    seconds = abs(offset_ms) / 1_000
    return f"{seconds:,.0f} s {direction} the machine's"
