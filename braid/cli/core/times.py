"""Parses and formats times for people. Pure."""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

from braid.kernel.errors import Invalid

_AGO: Final = re.compile(r"(\d{1,6})\s*(s|m|h|d)(?:\s+ago)?")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_time(text: str, now: datetime, field: str) -> datetime:
    """Parses a time: ISO 8601 (local if no zone is given), `14:03` of today, or `10m`, `2h`, `3d` ago.

    Args:
        text: The typed text.
        now: The present, in the user's own time zone.
        field: The field to name in the error.

    Raises:
        Invalid: the text has none of these forms.
    """
    if found := _AGO.fullmatch(text):
        return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    written = f"{now.date().isoformat()} {text if text[2] == ':' else f'0{text}'}" if _CLOCK.fullmatch(text) else text
    try:
        parsed = datetime.fromisoformat(written)
    except ValueError:
        remedy = "for example 2026-11-21T14:03:00Z, 14:03 or 10m (ago)"
        raise Invalid(f"{text!r} is not a time", field=field, remedy=remedy) from None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=now.tzinfo)


def parse_duration(text: str, field: str) -> int:
    """Parses a duration, `45s`, `30m`, `8h` or `7d`, to milliseconds. Raises `Invalid`."""
    found = _AGO.fullmatch(text)
    if found is None or not int(found[1]):
        raise Invalid(f"{text!r} is not a time that something lasts", field=field, remedy="for example 30m, 8h or 7d")
    return int(found[1]) * _SECONDS[found[2]] * 1_000


def parse_end(text: str, now: datetime, field: str) -> datetime:
    """Parses a future time: ISO 8601, or `18:00`, which is today's or tomorrow's. Raises `Invalid`."""
    if _AGO.fullmatch(text):
        raise Invalid(f"{text!r} is a time that something lasts", field=field, remedy="write a moment: 18:00")
    moment = parse_time(text, now, field)
    if moment <= now and _CLOCK.fullmatch(text):
        return moment + timedelta(days=1)
    return moment


def to_ms(moment: datetime) -> int:
    """Converts a moment to milliseconds since the epoch."""
    return round(moment.timestamp() * 1_000)


def from_ms(time_ms: int, zone: tzinfo | None) -> datetime:
    """Converts milliseconds since the epoch to a moment in a zone."""
    return datetime.fromtimestamp(time_ms / 1_000, zone)


def clock_text(time_ms: int, now: datetime) -> str:
    """The time of day of a moment, with the date if it is not today's."""
    moment = from_ms(time_ms, now.tzinfo)
    written = f"{moment:%H:%M:%S}.{time_ms % 1_000:03d}"
    return written if moment.date() == now.date() else f"{moment:%Y-%m-%d} {written}"


def duration_text(ms: int) -> str:
    """How long something lasts, as ages are written: `500ms`, `3s`, `5m`, `6d`; `-` for 0."""
    if 0 < ms < 1_000:
        return f"{ms}ms"
    return age_text(1, 1 + ms) if ms > 0 else "-"


def age_text(since_ms: int, now_ms: int) -> str:
    """The time since something, in one unit or two: `42s`, `5m10s`, `3h`, `12d`; `-` if it never happened."""
    if since_ms <= 0:
        return "-"
    seconds = max(0, now_ms - since_ms) // 1_000
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 600:
        return f"{seconds // 60}m{seconds % 60}s" if seconds % 60 else f"{seconds // 60}m"
    if seconds < 7_200:
        return f"{seconds // 60}m"
    return f"{seconds // 3_600}h" if seconds < 172_800 else f"{seconds // 86_400}d"
