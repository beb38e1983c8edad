"""Sessions, election and directory in SQLite, within one transaction. Nothing here begins or ends one.

A session lives while its process lives and its time has not run out; `now` is CLOCK_BOOTTIME, which all processes of a
machine share.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from braid.kernel.ports import Endpoint, Fence, Leader
from braid.stores.session import session_over
from braid.stores.sqlite_histories import next_revision
from braid.stores.sqlite_process import ProcessIdentity, is_dead

_TLS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS endpoint_tls (
    service TEXT NOT NULL, instance TEXT NOT NULL,
    tls_address TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE,
    PRIMARY KEY (service, instance)
) STRICT
"""
_HOLDER: Final = "session.expires, session.boot, session.namespace, session.pid, session.started"


class Held(NamedTuple):
    """A leadership that is held.

    Attributes:
        leader: It leads.
        process: Whose end ends the leadership.
        expires: When its session ends unless it is renewed, on CLOCK_BOOTTIME.
    """

    leader: Leader
    process: ProcessIdentity
    expires: float


def open_session(
    connection: sqlite3.Connection, session: str, ttl_seconds: float, process: ProcessIdentity, now: float
) -> None:
    """Grants a session to a process, and deletes sessions that have ended."""
    _sweep(connection, now)
    row = (session, ttl_seconds, now + ttl_seconds, *process)
    connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def renew_session(connection: sqlite3.Connection, session: str, now: float) -> bool:
    """Extends a session; False when it is over."""
    renewed = connection.execute(
        "UPDATE session SET expires = ? + ttl WHERE id = ? AND expires > ? RETURNING id", (now, session, now)
    )
    return bool(renewed.fetchall())


def end_session(connection: sqlite3.Connection, session: str) -> None:
    """Ends a session and everything that depends on it."""
    connection.execute("DELETE FROM session WHERE id = ?", (session,))


def try_lead(connection: sqlite3.Connection, endpoint: Endpoint, session: str, now: float) -> Leader | None:
    """Returns this session's leadership, won now or held already; None while another session leads.

    Raises:
        Fenced: the session is over.
    """
    _sweep(connection, now)
    _check_session(connection, session)
    row = connection.execute(
        "SELECT session, revision, instance, address FROM leader WHERE service = ?", (endpoint.service,)
    ).fetchone()
    if row is not None:
        holder, revision, instance, address = row
        return _leader(endpoint.service, revision, instance, address) if holder == session else None
    revision = next_revision(connection)
    won = (endpoint.service, revision, endpoint.instance, endpoint.address, session)
    connection.execute("INSERT INTO leader VALUES (?, ?, ?, ?, ?)", won)
    return _leader(endpoint.service, revision, endpoint.instance, endpoint.address)


def resign(connection: sqlite3.Connection, fence: Fence) -> None:
    """Ends a leadership if it is held still."""
    connection.execute("DELETE FROM leader WHERE service = ? AND revision = ?", (fence.service, fence.revision))


def read_held(connection: sqlite3.Connection, service: str, now: float) -> Held | None:
    """Returns the present leadership of a service, None while it is free; changes nothing."""
    row = connection.execute(
        f"SELECT revision, instance, address, {_HOLDER} FROM leader"
        " JOIN session ON session.id = leader.session WHERE service = ?",
        (service,),
    ).fetchone()
    if row is None or _is_over(row[3:], now):
        return None
    revision, instance, address, expires, *process = row
    return Held(_leader(service, revision, instance, address), ProcessIdentity(*process), expires)


def publish(connection: sqlite3.Connection, endpoint: Endpoint, session: str, now: float) -> None:
    """Puts an address in the directory. Raises `Fenced` when the session is over."""
    _sweep(connection, now)
    _check_session(connection, session)
    row = (endpoint.service, endpoint.instance, endpoint.address, session)
    connection.execute("INSERT OR REPLACE INTO endpoint VALUES (?, ?, ?, ?)", row)
    # Made here and not with the other tables: stores of earlier releases lack it, and those go on without it.
    connection.execute(_TLS_TABLE)
    connection.execute(
        "INSERT OR REPLACE INTO endpoint_tls VALUES (?, ?, ?, ?)",
        (endpoint.service, endpoint.instance, endpoint.tls_address, session),
    )
    next_revision(connection)


def read_directory(connection: sqlite3.Connection, now: float) -> Sequence[Endpoint]:
    """All live replicas, sorted; changes nothing."""
    rows = connection.execute(
        f"SELECT service, instance, address, {_HOLDER} FROM endpoint"
        " JOIN session ON session.id = endpoint.session ORDER BY service, instance"
    ).fetchall()
    tls = _tls_addresses(connection)
    live = [row[:3] for row in rows if not _is_over(row[3:], now)]
    return [
        Endpoint(service, instance, address, tls.get((service, instance), "")) for service, instance, address in live
    ]


def _tls_addresses(connection: sqlite3.Connection) -> Mapping[tuple[str, str], str]:
    """Where replicas serve mutual TLS, by service and instance, as their present sessions published it."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'endpoint_tls'").fetchone() is None:
        return {}
    rows = connection.execute(
        "SELECT service, instance, tls_address FROM endpoint_tls JOIN endpoint USING (service, instance, session)"
    )
    return {(service, instance): address for service, instance, address in rows}


def _leader(service: str, revision: int, instance: str, address: str) -> Leader:
    return Leader(Endpoint(service, instance, address), Fence(service, revision))


def _is_over(holder: tuple[float, str, str, int, int], now: float) -> bool:
    expires, boot, namespace, pid, started = holder
    return expires <= now or is_dead(ProcessIdentity(boot, namespace, pid, started))


def _over(connection: sqlite3.Connection, now: float) -> Iterator[str]:
    for row in connection.execute(f"SELECT id, {_HOLDER} FROM session").fetchall():
        if _is_over(row[1:], now):
            yield row[0]


def _sweep(connection: sqlite3.Connection, now: float) -> None:
    for session in _over(connection, now):
        end_session(connection, session)


def _check_session(connection: sqlite3.Connection, session: str) -> None:
    if connection.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone() is None:
        raise session_over(session)
