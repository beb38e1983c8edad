"""Handlers of the RPCs about alerts. The domain decides; the history answers."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.api.lagmon.v1 import alert_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.lagmon.alerts import ALERT_CHANGES_AT_ONCE
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller
from braid.rpc.page_tokens import PageTokens
from braid.runtime.replica import Replica
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.decisions.events import Command, CreateSilence, DeleteSilence
from services.lagmon.alerts.decisions.model import Alert, check_alert_name
from services.lagmon.alerts.messages import alert_message, pending_message, silence_message
from services.lagmon.alerts.outlets.outlets import AlertOutlets
from services.lagmon.alerts.rule_files import FILE_NAME, RUNBOOKS, rule_file
from services.lagmon.alerts.watch import AlertWatch

_CURRENT: Final = -(1 << 62)  # before every resolved alert


class _Place(NamedTuple):
    """The place of an alert in the order of a list: current ones by name, then resolved ones, newest first."""

    order: int
    name: str


_TOKENS: Final = PageTokens(_Place)


class AlertRequests:
    """Handlers of the RPCs about alerts in one replica."""

    def __init__(self, replica: Replica, watch: AlertWatch, outlets: AlertOutlets, runbooks: str = RUNBOOKS) -> None:
        self._replica = replica
        self._watch = watch
        self._outlets = outlets
        self._runbooks = runbooks

    async def list(self, request: api.ListAlertsRequest, caller: Caller) -> api.ListAlertsResponse:
        """Returns one page: alerts that fire or are pending by name, then those resolved. Raises `Invalid`."""
        if request.page_size < 0:
            message = f"a page cannot have {request.page_size} alerts"
            raise Invalid(message, field="page_size", remedy="use 0 for the default")
        last = _TOKENS.read(request.page_token) or _Place(_CURRENT, "")
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        every = await self._all(request.include_resolved)
        found = [each for each in every if _wanted(each, request) and _place(each) > last]
        token = _TOKENS.write(_place(found[size - 1]) if len(found) > size else None)
        whole = not (request.stream or request.cluster or request.page_token)  # outlets are nobody's but the mesh's
        outlets = self._outlets.messages() if whole else []
        return api.ListAlertsResponse(alerts=found[:size], next_page_token=token, outlets=outlets)

    async def export_rules(self, request: api.ExportAlertRulesRequest, caller: Caller) -> api.ExportAlertRulesResponse:
        """Returns the rules as files for Prometheus. Raises `Invalid`."""
        content = rule_file(request.runbooks or self._runbooks)
        return api.ExportAlertRulesResponse(files=[alert_pb2.AlertRuleFile(name=FILE_NAME, content=content)])

    async def get(self, request: api.GetAlertRequest, caller: Caller) -> alert_pb2.Alert:
        """Returns an alert that fires or is pending, else the latest that was resolved. Raises `NotFound`."""
        name = check_alert_name(request.name, "name")
        for each in await self._all(resolved=True):
            if each.name == name:
                return each
        raise NotFound(f"there is no alert {name}", field="name", remedy="list them: braid get alerts")

    async def create_silence(self, request: api.CreateSilenceRequest, caller: Caller) -> alert_pb2.Silence:
        """Silences an alert. Raises `Invalid`; `Exhausted` if there are too many silences."""
        state = await self._execute(CreateSilence(request.alert, request.lasting_ms, request.reason), caller)
        silence = state.silences.get(request.alert)
        if silence is None:  # a repeated request whose silence is over
            raise NotFound(f"the silence of {request.alert} is over", field="alert", remedy="silence it again")
        return silence_message(request.alert, silence)

    async def delete_silence(self, request: api.DeleteSilenceRequest, caller: Caller) -> api.DeleteSilenceResponse:
        """Ends a silence. Raises `NotFound`."""
        check_alert_name(request.alert, "alert")
        await self._execute(DeleteSilence(request.alert), caller)
        return api.DeleteSilenceResponse()

    async def _all(self, resolved: bool) -> Sequence[alert_pb2.Alert]:
        clock = self._replica.host.clock
        pending, state, now_ms = await self._watch.pending(), self._watch.state, clock.now_ms()
        silences = {name: each for name, each in state.silences.items() if each.expire_ms > now_ms}
        found = [
            pending_message(each, silences.get(each.key.name)) for each in pending if each.key.name not in state.open
        ]
        told: list[Alert] = [*state.open.values(), *(state.resolved if resolved else ())]
        for at in range(0, len(told), ALERT_CHANGES_AT_ONCE):
            some = told[at : at + ALERT_CHANGES_AT_ONCE]
            found += [alert_message(each, None if each.resolved_ms else silences.get(each.name)) for each in some]
            await clock.sleep(0)
        return sorted(found, key=_place)

    async def _execute(self, command: Command, caller: Caller) -> Alerts:
        outcome = await self._replica.aggregates.execute(
            ALERTS,
            MESH,
            command,
            actor=caller.principal or caller.peer,
            tenant=caller.tenant,
            request_id=caller.request_id,
        )
        return outcome.state


def _wanted(alert: alert_pb2.Alert, request: api.ListAlertsRequest) -> bool:
    return request.stream in ("", alert.stream) and request.cluster in ("", alert.cluster)


def _place(alert: alert_pb2.Alert) -> _Place:
    return _Place(-alert.resolve_time_ms if alert.resolve_time_ms else _CURRENT, alert.name)
