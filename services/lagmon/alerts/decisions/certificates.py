"""Certificates that end soon: what replicas say of theirs, kept while they do not answer, and the rules about it. Pure.

Whatever renews certificates does so in the last third of their lives. So a certificate counts as ending soon within a
fixed time, but not before three tenths of its life are left: one of a day's life is no alert for all of its days.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from braid.kernel.limits.lagmon.alerts import (
    ALERT_AUTHORITY_PAGE_SECONDS,
    ALERT_AUTHORITY_TICKET_SECONDS,
    ALERT_CERTIFICATE_KEPT_SECONDS,
    ALERT_CERTIFICATE_LIFE_PAGE,
    ALERT_CERTIFICATE_LIFE_TICKET,
    ALERT_CERTIFICATE_PAGE_SECONDS,
    ALERT_CERTIFICATE_TICKET_SECONDS,
    ALERT_CERTIFICATES_MAX,
    ALERT_TEXT_MAX,
)
from braid.kernel.timing.days import DAY_MS
from services.lagmon.alerts.decisions.model import CERTIFICATE_PAGE, CERTIFICATE_TICKET, AlertKey, Condition

AUTHORITY: Final = "authority"  # the subject of alerts about what signed the replicas' certificates
_HOUR_MS: Final = 3_600_000
_NAMED: Final = 5  # replicas in a summary


class ValidTime(NamedTuple):
    """The time in which a certificate is valid, in milliseconds since the epoch."""

    begins_ms: int
    ends_ms: int


class ReplicaCertificates(NamedTuple):
    """The certificates that a replica uses; all None for one that uses none.

    Attributes:
        own: What it shows to callers and to other replicas.
        authority: What signed it.
        store: What it shows to the event store alone.
        expired: Whether a caller found its own to have expired.
    """

    own: ValidTime | None = None
    authority: ValidTime | None = None
    store: ValidTime | None = None
    expired: bool = False


EXPIRED: Final = ReplicaCertificates(expired=True)


@dataclass(slots=True)
class _Known:
    listed: float
    reading: ReplicaCertificates | None = None


class Certificates:
    """The last that each replica said of its certificates. They end by the clock, heard or not."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def observe(self, listed: Iterable[str], answers: Mapping[str, ReplicaCertificates], now: float) -> None:
        """Takes one look at all replicas.

        Args:
            listed: Replicas that the directory names. One that restarts is not named for a moment, and is kept.
            answers: What those that answered say; `EXPIRED` for one that nobody can speak with any more.
            now: A clock that never steps.
        """
        for name in listed:
            if name in self._known:
                self._known[name].listed = now
            elif len(self._known) < ALERT_CERTIFICATES_MAX:
                self._known[name] = _Known(now)
        for name in answers.keys() & self._known.keys():
            known, answer = self._known[name], answers[name]
            before = known.reading or ReplicaCertificates()
            known.reading = before._replace(expired=True) if answer.expired else answer
        oldest = now - ALERT_CERTIFICATE_KEPT_SECONDS
        self._known = {name: each for name, each in self._known.items() if each.listed >= oldest}

    @property
    def readings(self) -> Mapping[str, ReplicaCertificates | None]:
        """Each replica's last answer; None for one that was never heard."""
        return {name: each.reading for name, each in self._known.items()}


class _Soon(NamedTuple):
    """Whether something ends so soon that a rule fires; None if that is not known."""

    page: bool | None
    ticket: bool | None


def certificate_conditions(
    readings: Mapping[str, ReplicaCertificates | None] | None, now_ms: int
) -> Iterator[Condition]:
    """Yields what the rules say of each replica's certificate, and of the authority that signed them."""
    known = {} if readings is None else readings
    authority = _authority_soon(known, now_ms)
    if authority is not None:
        yield from _conditions(AUTHORITY, authority, _authority_summary(known, now_ms))
    for name, reading in known.items():
        if reading is None:
            yield from _conditions(name, _Soon(None, None), "")
        elif reading.own is not None or reading.store is not None or reading.expired:
            soon = _replica_soon(reading, now_ms)
            if authority is not None and True in authority and _ends_with_authority(reading):
                soon = _Soon(None, None)  # no certificate outlives its authority: that is one alert
            yield from _conditions(name, soon, _summary(name, reading, now_ms))


def _replica_soon(reading: ReplicaCertificates, now_ms: int) -> _Soon:
    if reading.expired:
        return _Soon(True, True)
    within = ALERT_CERTIFICATE_PAGE_SECONDS, ALERT_CERTIFICATE_TICKET_SECONDS
    found = [_soon(each, now_ms, *within) for each in (reading.own, reading.store) if each is not None]
    return _Soon(any(each.page for each in found), any(each.ticket for each in found))


def _authority_soon(known: Mapping[str, ReplicaCertificates | None], now_ms: int) -> _Soon | None:
    """Judges the authority of every replica together; None in a mesh without one."""
    times = [each.authority for each in known.values() if each is not None and each.authority is not None]
    unheard = None in known.values()
    if not times and not unheard:
        return None
    within = ALERT_AUTHORITY_PAGE_SECONDS, ALERT_AUTHORITY_TICKET_SECONDS
    found = [_soon(each, now_ms, *within) for each in times]
    return (
        _Soon(*(any(each) or (None if unheard else False) for each in zip(*found, strict=True)))
        if found
        else (_Soon(None, None))
    )


def _soon(valid: ValidTime, now_ms: int, page_seconds: float, ticket_seconds: float) -> _Soon:
    left, life = valid.ends_ms - now_ms, valid.ends_ms - valid.begins_ms
    page = left <= min(page_seconds * 1_000, ALERT_CERTIFICATE_LIFE_PAGE * life)
    return _Soon(page, left <= min(ticket_seconds * 1_000, ALERT_CERTIFICATE_LIFE_TICKET * life))


def _ends_with_authority(reading: ReplicaCertificates) -> bool:
    own, authority = reading.own, reading.authority
    return own is not None and authority is not None and own.ends_ms >= authority.ends_ms and not reading.expired


def _summary(name: str, reading: ReplicaCertificates, now_ms: int) -> str:
    if reading.expired:
        return f"the certificate of {name} has expired: nobody can open a connection to it"
    times = [(reading.own, f"the certificate of {name}"), (reading.store, f"what {name} shows the event store")]
    ends_ms, what = min((valid.ends_ms, what) for valid, what in times if valid is not None)
    return f"{what} {_ends(ends_ms - now_ms)}"


def _authority_summary(known: Mapping[str, ReplicaCertificates | None], now_ms: int) -> str:
    ends = {name: each.authority.ends_ms for name, each in known.items() if each is not None and each.authority}
    if not ends:
        return ""
    soonest = min(ends.values())
    names = sorted(name for name, each in ends.items() if each == soonest)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the authority {_ends(soonest - now_ms)} that signed what {', '.join(names[:_NAMED])}{more} show"


def _ends(left_ms: int) -> str:
    if left_ms <= 0:
        return "has expired"
    return (
        f"ends in {left_ms / DAY_MS:.1f} days" if left_ms >= 2 * DAY_MS else f"ends in {left_ms / _HOUR_MS:.1f} hours"
    )


def _conditions(certificate: str, soon: _Soon, summary: str) -> Iterator[Condition]:
    text = summary[:ALERT_TEXT_MAX]
    yield Condition(AlertKey(CERTIFICATE_PAGE.name, certificate=certificate), soon.page, text)
    ticket = None if soon.page else soon.ticket
    yield Condition(AlertKey(CERTIFICATE_TICKET.name, certificate=certificate), ticket, text)
