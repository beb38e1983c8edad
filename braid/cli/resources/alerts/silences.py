"""The work of `silence`: silences an alert, or ends its silence."""

from typing import Final

from braid.api.lagmon.v1 import alert_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.cli.core.session import Session
from braid.cli.core.times import clock_text
from braid.kernel.errors import BraidError

_FLAGS: Final = {"alert": "ALERT", "lasting_ms": "--for", "reason": "--reason"}


async def silence(session: Session, alert: str, lasting_ms: int, reason: str) -> int:
    """Silences an alert. Raises `Invalid`, which names the flag."""
    name = alert.removeprefix("alert/")
    request = api.CreateSilenceRequest(alert=name, lasting_ms=lasting_ms, reason=reason)
    try:
        made = await session.change("lagmon", "CreateSilence", request, alert_pb2.Silence, "silencing the alert")
    except BraidError as error:
        error.field = _FLAGS.get(error.field, error.field)
        raise
    session.terminal.print(f"alert/{name} silenced until {clock_text(made.expire_time_ms, session.now)}")
    return 0


async def end_silence(session: Session, alert: str) -> int:
    """Ends an alert's silence. Raises `NotFound`."""
    name = alert.removeprefix("alert/")
    request = api.DeleteSilenceRequest(alert=name)
    await session.change("lagmon", "DeleteSilence", request, api.DeleteSilenceResponse, "ending the silence")
    session.terminal.print(f"alert/{name} not silenced any more")
    return 0
