"""A lagmon and a dlq that say what a test told them to, in the real messages, run by the real runtime."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Final

from braid.api.dlq.v1 import dead_letter_pb2, replay_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as dlq_api
from braid.api.lagmon.v1 import alert_pb2, lag_pb2, progress_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.kernel.errors import BraidError, Invalid, NotFound, Refused
from braid.kernel.ports import Caller, RpcService
from braid.rpc.methods import method_path, server_stream, service_path, unary
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica

FIRST_MS: Final = 1_790_000_000_000
_NO_KINDS: Final[Mapping[str, AnyKind]] = MappingProxyType({})


class ScriptedLagmon:
    """Answers with `rows`; a watch hears of every change of them within 0.1 s."""

    name = "lagmon"
    kinds = _NO_KINDS

    def __init__(self) -> None:
        self.rows: list[lag_pb2.Lag] = []
        self.catching_up: list[str] = []
        self.page_rows = 1_000
        self.silent = False
        self.refusal: BraidError | None = None
        self.all_refused: BraidError | None = None  # why lag of all groups together is not listed
        self.all_seconds = 0.0  # that it takes to list it
        self.asked: list[lagmon_api.ListLagRequest] = []
        self.alerts: list[alert_pb2.Alert] = []
        self.silenced: list[lagmon_api.CreateSilenceRequest | lagmon_api.DeleteSilenceRequest] = []
        self.outlets: list[alert_pb2.AlertOutlet] = []
        self.rule_files: list[alert_pb2.AlertRuleFile] = []
        self.exported: list[lagmon_api.ExportAlertRulesRequest] = []
        self.history = lagmon_api.ListLagHistoryResponse()
        self.history_asked: list[lagmon_api.ListLagHistoryRequest] = []
        self.progress: progress_pb2.Progress | BraidError = NotFound("no commit is known")
        self.pathways = lagmon_api.ListPathwaysResponse()
        self.pathways_asked: list[lagmon_api.ListPathwaysRequest] = []

    def rpc(self, replica: Replica) -> RpcService:
        """The table of methods."""
        return RpcService(
            name=service_path(self.name),
            unary={
                method_path(self.name, "ListLag"): unary(lagmon_api.ListLagRequest, self._list),
                method_path(self.name, "ListLagHistory"): unary(lagmon_api.ListLagHistoryRequest, self._list_history),
                method_path(self.name, "GetProgress"): unary(lagmon_api.GetProgressRequest, self._get_progress),
                method_path(self.name, "ListPathways"): unary(lagmon_api.ListPathwaysRequest, self._list_pathways),
                method_path(self.name, "ListAlerts"): unary(lagmon_api.ListAlertsRequest, self._list_alerts),
                method_path(self.name, "ExportAlertRules"): unary(lagmon_api.ExportAlertRulesRequest, self._export),
                method_path(self.name, "GetAlert"): unary(lagmon_api.GetAlertRequest, self._get_alert),
                method_path(self.name, "CreateSilence"): unary(lagmon_api.CreateSilenceRequest, self._silence),
                method_path(self.name, "DeleteSilence"): unary(lagmon_api.DeleteSilenceRequest, self._end_silence),
            },
            server_stream={method_path(self.name, "WatchLag"): server_stream(lagmon_api.WatchLagRequest, self._watch)},
            duplex={},
        )

    async def lead(self, replica: Replica) -> None:
        """Nothing to do."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""

    async def _list_alerts(
        self, request: lagmon_api.ListAlertsRequest, caller: Caller
    ) -> lagmon_api.ListAlertsResponse:
        found = [each for each in self.alerts if request.stream in ("", each.stream) and not each.resolve_time_ms]
        return lagmon_api.ListAlertsResponse(alerts=found, outlets=self.outlets)

    async def _get_progress(self, request: lagmon_api.GetProgressRequest, caller: Caller) -> progress_pb2.Progress:
        if isinstance(self.progress, BraidError):
            raise self.progress
        found = progress_pb2.Progress(group=request.group, topic=request.topic, partition=request.partition)
        found.MergeFrom(self.progress)
        return found

    async def _export(
        self, request: lagmon_api.ExportAlertRulesRequest, caller: Caller
    ) -> lagmon_api.ExportAlertRulesResponse:
        self.exported.append(request)
        return lagmon_api.ExportAlertRulesResponse(files=self.rule_files)

    async def _get_alert(self, request: lagmon_api.GetAlertRequest, caller: Caller) -> alert_pb2.Alert:
        for each in self.alerts:
            if each.name == request.name:
                return each
        raise NotFound(f"there is no alert {request.name}", field="name", remedy="list them: braid get alerts")

    async def _silence(self, request: lagmon_api.CreateSilenceRequest, caller: Caller) -> alert_pb2.Silence:
        self.silenced.append(request)
        if not request.reason:
            raise Invalid("a silence needs a reason", field="reason", remedy="say what is being done about the alert")
        return alert_pb2.Silence(alert=request.alert, expire_time_ms=FIRST_MS + request.lasting_ms)

    async def _end_silence(
        self, request: lagmon_api.DeleteSilenceRequest, caller: Caller
    ) -> lagmon_api.DeleteSilenceResponse:
        self.silenced.append(request)
        return lagmon_api.DeleteSilenceResponse()

    async def _list(self, request: lagmon_api.ListLagRequest, caller: Caller) -> lagmon_api.ListLagResponse:
        self.asked.append(request)
        if self.refusal is not None:
            raise self.refusal
        if not (request.filter.group or request.filter.groups):
            await asyncio.sleep(self.all_seconds)
            if self.all_refused is not None:
                raise self.all_refused
        rows = self._matching(request.filter)
        start = int(request.page_token or "0")
        end = start + self.page_rows
        return lagmon_api.ListLagResponse(
            lags=rows[start:end], next_page_token=str(end) if end < len(rows) else "", catching_up=self.catching_up
        )

    async def _list_history(
        self, request: lagmon_api.ListLagHistoryRequest, caller: Caller
    ) -> lagmon_api.ListLagHistoryResponse:
        self.history_asked.append(request)
        return self.history

    async def _list_pathways(
        self, request: lagmon_api.ListPathwaysRequest, caller: Caller
    ) -> lagmon_api.ListPathwaysResponse:
        self.pathways_asked.append(request)
        return self.pathways

    async def _watch(
        self, request: lagmon_api.WatchLagRequest, caller: Caller
    ) -> AsyncIterator[lagmon_api.WatchLagResponse]:
        shown = self._matching(request.filter)
        yield lagmon_api.WatchLagResponse(lags=shown, catching_up=self.catching_up)
        while True:
            await asyncio.sleep(0.1)
            if self.silent:
                continue
            rows = self._matching(request.filter)
            names = [(each.group, each.stream, each.lane, each.topic, each.partition) for each in rows]
            gone = [
                each for each in shown if (each.group, each.stream, each.lane, each.topic, each.partition) not in names
            ]
            changed = [each for each in rows if each not in shown]
            shown = rows
            yield lagmon_api.WatchLagResponse(lags=changed, gone=gone, catching_up=self.catching_up)

    def _matching(self, wanted: lagmon_api.LagFilter) -> list[lag_pb2.Lag]:
        return [
            lag_pb2.Lag.FromString(each.SerializeToString())
            for each in self.rows
            if wanted.group in ("", each.group) and wanted.stream in ("", each.stream)
            if wanted.lane in ("", each.lane)
            if not wanted.groups or each.group in wanted.groups
        ]


class ScriptedDlq:
    """Holds letters and replays; `on_look` changes a replay whenever it is asked for."""

    name = "dlq"
    kinds = _NO_KINDS

    def __init__(self) -> None:
        self.contents: list[dead_letter_pb2.DeadLetterContent] = []
        self.replays: dict[str, replay_pb2.Replay] = {}
        self.filter_error: Invalid | None = None
        self.catching_up: list[str] = []
        self.created: list[dlq_api.CreateReplayRequest] = []
        self.on_look: Callable[[replay_pb2.Replay], None] = lambda replay: None

    def rpc(self, replica: Replica) -> RpcService:
        """The table of methods."""

        def path(method: str) -> str:
            return method_path(self.name, method)

        return RpcService(
            name=service_path(self.name),
            unary={
                path("ListDeadLetters"): unary(dlq_api.ListDeadLettersRequest, self._list_letters),
                path("GetDeadLetter"): unary(dlq_api.GetDeadLetterRequest, self._get_letter),
                path("CreateReplay"): unary(dlq_api.CreateReplayRequest, self._create),
                path("GetReplay"): unary(dlq_api.GetReplayRequest, self._get_replay),
                path("ListReplays"): unary(dlq_api.ListReplaysRequest, self._list_replays),
                path("PauseReplay"): unary(dlq_api.PauseReplayRequest, self._pause),
                path("ResumeReplay"): unary(dlq_api.ResumeReplayRequest, self._resume),
                path("CancelReplay"): unary(dlq_api.CancelReplayRequest, self._cancel),
            },
            server_stream={},
            duplex={},
        )

    async def lead(self, replica: Replica) -> None:
        """Nothing to do."""

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""

    async def _list_letters(
        self, request: dlq_api.ListDeadLettersRequest, caller: Caller
    ) -> dlq_api.ListDeadLettersResponse:
        self._check(request.filter)
        letters = [each.letter for each in self.contents if request.stream in ("", each.letter.stream)]
        start = int(request.page_token or "0")
        end = start + (request.page_size or 100)
        return dlq_api.ListDeadLettersResponse(
            letters=letters[start:end],
            total=len(letters),
            next_page_token=str(end) if end < len(letters) else "",
            catching_up=self.catching_up,
        )

    async def _get_letter(
        self, request: dlq_api.GetDeadLetterRequest, caller: Caller
    ) -> dead_letter_pb2.DeadLetterContent:
        for each in self.contents:
            if each.letter.name == request.name:
                return each
        raise NotFound(f"there is no dead letter {request.name}", field="name", remedy="its topic keeps 24 h")

    async def _create(self, request: dlq_api.CreateReplayRequest, caller: Caller) -> dlq_api.CreateReplayResponse:
        self._check(request.spec.filter)
        if not any(each.letter.stream == request.spec.stream for each in self.contents):
            raise NotFound(f"there is no stream {request.spec.stream}", field="spec.stream")
        self.created.append(request)
        matched = len(self.contents)
        status = replay_pb2.ReplayStatus(state=replay_pb2.REPLAY_STATE_RUNNING, matched=matched)
        replay = replay_pb2.Replay(spec=request.spec, status=status, create_time_ms=FIRST_MS)
        if not request.dry_run:
            replay.id = f"01REPLAY{len(self.replays)}"
            self.replays[replay.id] = replay
        return dlq_api.CreateReplayResponse(
            replay=replay, examples=[each.letter for each in self.contents[:2]] if request.dry_run else ()
        )

    async def _get_replay(self, request: dlq_api.GetReplayRequest, caller: Caller) -> replay_pb2.Replay:
        replay = self._replay(request.id)
        self.on_look(replay)
        return replay

    async def _list_replays(self, request: dlq_api.ListReplaysRequest, caller: Caller) -> dlq_api.ListReplaysResponse:
        found = [each for each in self.replays.values() if request.stream in ("", each.spec.stream)]
        return dlq_api.ListReplaysResponse(replays=found)

    async def _pause(self, request: dlq_api.PauseReplayRequest, caller: Caller) -> replay_pb2.Replay:
        return self._changed(request.id, replay_pb2.REPLAY_STATE_PAUSED)

    async def _resume(self, request: dlq_api.ResumeReplayRequest, caller: Caller) -> replay_pb2.Replay:
        return self._changed(request.id, replay_pb2.REPLAY_STATE_RUNNING)

    async def _cancel(self, request: dlq_api.CancelReplayRequest, caller: Caller) -> replay_pb2.Replay:
        return self._changed(request.id, replay_pb2.REPLAY_STATE_CANCELLED)

    def _changed(self, replay_id: str, state: "replay_pb2.ReplayState.ValueType") -> replay_pb2.Replay:
        replay = self._replay(replay_id)
        if replay.status.state == replay_pb2.REPLAY_STATE_CANCELLED:
            raise Refused(f"replay {replay_id} is over", field="id", remedy="create another")
        replay.status.state = state
        return replay

    def _replay(self, replay_id: str) -> replay_pb2.Replay:
        if replay_id not in self.replays:
            raise NotFound(f"there is no replay {replay_id}", field="id")
        return self.replays[replay_id]

    def _check(self, where: str) -> None:
        if where and self.filter_error is not None:
            raise self.filter_error
