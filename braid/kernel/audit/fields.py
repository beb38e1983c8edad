"""A record by the names of its fields, as JSON lines and `braid events -o json` write it. Names never change. Pure."""

from datetime import UTC, datetime

from braid.kernel.audit.calls import AuditRecord, CallsLost


def fields_of(record: AuditRecord, service: str, instance: str) -> dict[str, str | int | bool]:
    """A record of a replica as plain values. A later one with the same first time and caller replaces a count."""
    if isinstance(record, CallsLost):
        return {
            "time": _time(record.last_ms),
            "first_time": _time(record.first_ms),
            "event": "lost",
            "service": service,
            "instance": instance,
            "count": record.count,
        }
    call = record.call
    return {
        "time": _time(call.time_ms),
        "first_time": _time(record.first_ms),
        "event": "call",
        "service": service,
        "instance": instance,
        "principal": call.principal,
        "authenticated": call.authenticated,
        "tenant": call.tenant,
        "address": call.address,
        "rpc": call.rpc,
        "resource": call.resource,
        "request_id": call.request_id,
        "outcome": call.outcome.value,
        "reason": call.reason,
        "command": call.command,
        "count": record.count,
    }


def _time(time_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
