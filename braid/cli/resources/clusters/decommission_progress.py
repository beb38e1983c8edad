"""The progress of a decommission, for people. Pure."""

from typing import Final

from braid.api.registry.v1 import cluster_pb2
from braid.cli.core.documents import enum_text
from braid.cli.core.session import Session
from braid.cli.core.times import from_ms

EMPTY: Final = cluster_pb2.DECOMMISSION_STATE_EMPTY


def progress_text(found: cluster_pb2.Decommission) -> str:
    """The progress of a decommission, in one line."""
    if found.state == EMPTY:
        return "empty: nothing is left on it"
    counts = (
        ("active", found.active_channels),
        ("spare", found.spare_channels),
        ("draining", found.draining_channels),
        ("drained", found.drained_channels),
        ("stranded", found.stranded_channels),
    )
    channels = ", ".join(f"{count} {what}" for what, count in counts if count) or "none"
    blocked = f"; {_streams(found.blocked_streams)} blocked" if found.blocked_streams else ""
    return f"{state_text(found)}: {_streams(found.streams_left)} left, channels: {channels}{blocked}"


def _streams(count: int) -> str:
    return f"{count} stream{'s' * (count != 1)}"


def state_text(found: cluster_pb2.Decommission) -> str:
    """The state of a decommission, in one word."""
    return enum_text(cluster_pb2.DecommissionState.DESCRIPTOR, found.state)


def progress_lines(session: Session, name: str, found: cluster_pb2.Decommission) -> list[str]:
    """The progress of a decommission, in full."""
    lines = [f"Decommission: {progress_text(found)}"]
    if found.reason:
        lines.append(f"  reason: {found.reason}")
    lines += [f"  blocked: {each.stream}: {each.reason}" for each in found.blocked]
    lines += _more(found.blocked_streams, len(found.blocked))
    lines += [f"  stranded: {name}" for name in found.stranded]
    lines += _more(found.stranded_channels, len(found.stranded))
    if found.kept_until_ms:
        until = from_ms(found.kept_until_ms, session.now.tzinfo)
        lines.append(f"  drained topics are kept until {until:%Y-%m-%d %H:%M}, for replays; to delete them now:")
        lines.append(f"    braid decommission cluster {name} --discard-drained")
    return lines


def _more(whole: int, named: int) -> list[str]:
    return [f"  … and {whole - named} more"] if whole > named else []
