"""Webhooks and Alertmanagers that take no alerts. Pure."""

from collections.abc import Sequence

from braid.api.lagmon.v1.alert_pb2 import AlertOutlet
from braid.cli.core.times import age_text
from braid.cli.doctor.findings import Finding, Level


def check_outlets(outlets: Sequence[AlertOutlet], now_ms: int) -> list[Finding]:
    """Checks that each outlet takes alerts: while one fails, the people behind it are not told."""
    found: list[Finding] = []
    for outlet in outlets:
        name = f"outlet/{outlet.name}"
        if outlet.trouble:
            waiting = f"; {outlet.waiting} notifications wait" if outlet.waiting else ""
            since = age_text(outlet.trouble_since_ms, now_ms)
            message = f"the {outlet.kind} has taken no alerts for {since}: {outlet.trouble}{waiting}"
            remedy = "check its url, files and receiver in alert_outlets of lagmon's settings"
            found.append(Finding(name, "outlet", Level.FAIL, message, remedy))
        else:
            found.append(Finding(name, "outlet", Level.OK, f"the {outlet.kind} takes alerts"))
    return found
