"""Clusters' loads, for people: free space on the fullest disk, and bytes appended. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from braid.cli.core.times import age_text

if TYPE_CHECKING:
    from braid.api.registry.v1.cluster_pb2 import ClusterLoad

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LABEL_COLUMNS: Final = 26


def bytes_text(count: float) -> str:
    """Formats bytes in a unit that leaves at most three figures before the point."""
    unit = 0
    while count >= 1_000 and unit < len(_UNITS) - 1:
        count, unit = count / 1_024, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 or count >= 100 else f"{count:.1f} {_UNITS[unit]}"


def free_text(load: "ClusterLoad") -> str:
    """The free space of the fullest disk; '' if it was not measured."""
    return f"{load.free_bytes / load.total_bytes:.0%}" if load.total_bytes else ""


def taken_text(load: "ClusterLoad") -> str:
    """Bytes appended per second; '' if they were not measured."""
    return f"{bytes_text(load.bytes_per_s)}/s" if load.total_bytes else ""


def load_lines(load: "ClusterLoad", now_ms: int) -> Sequence[str]:
    """A cluster's load, under its own heading."""
    rows: list[tuple[str, str]] = []
    if load.total_bytes:
        disk = f"{bytes_text(load.free_bytes)} of {bytes_text(load.total_bytes)} free ({free_text(load)})"
        rows += [
            ("fullest disk", f"{disk}, of broker {load.broker}"),
            ("taken", f"{taken_text(load)} over the last minute, copies not counted"),
            ("measured", f"{age_text(load.measured_ms, now_ms)} ago"),
        ]
    if load.silent_brokers:
        rows.append(("did not tell", f"broker {', '.join(map(str, load.silent_brokers))}"))
    if load.unmeasured:
        rows.append(("not measured" if not load.total_bytes else "last look", load.unmeasured))
    return ["Load:", *(f"  {f'{label}:':{_LABEL_COLUMNS - 2}}{text}" for label, text in rows)]
