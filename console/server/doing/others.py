"""Actions on alerts, replays of dead letters, and requests that wait for a second person."""

from typing import Final, cast

from google.protobuf.message import Message

from braid.api.dlq.v1 import dlq_service_pb2 as dlq
from braid.api.dlq.v1 import replay_pb2
from braid.api.lagmon.v1 import alert_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.api.registry.v1 import approval_pb2
from braid.kernel.errors import Invalid
from console.server.doing.action import Action, Call, options
from console.server.doing.arguments import DURATION, FLAG, NUMBER, TEXT, Argument, Given, duration_ms

_ALERT: Final = Argument("alert", TEXT, "the alert's name", required=True)
_REPLAY: Final = Argument("replay", TEXT, "the replay's id", required=True)


def _silence_call(given: Given) -> Call:
    request = lagmon.CreateSilenceRequest(
        alert=given.text("alert"), lasting_ms=duration_ms(given.text("for"), "for"), reason=given.text("reason")
    )
    return Call("lagmon", "CreateSilence", request, alert_pb2.Silence)


def _replay_call(given: Given) -> Call:
    if given.flag("broadcast") and given.text("destination"):
        raise Invalid("goes without a destination", field="broadcast", remedy="leave out one of both")
    rate = given.number("rate") or 0.0
    if rate < 0.0:
        raise Invalid("is negative", field="rate", remedy="records a second; 0 for no cap")
    spec = replay_pb2.ReplaySpec(
        stream=given.text("stream"),
        filter=given.text("filter"),
        destination=given.text("destination"),
        rate_per_s=rate,
        broadcast=given.flag("broadcast"),
    )
    request = dlq.CreateReplayRequest(spec=spec, dry_run=given.dry_run)
    return Call("dlq", "CreateReplay", request, dlq.CreateReplayResponse)


def _replay_command(given: Given) -> list[str]:
    rate = given.number("rate")
    return [
        *("dlq", "replay"),
        *options([("--stream", given.text("stream")), ("--where", given.text("filter"))]),
        *options([("--rate", f"{rate:g}" if rate else ""), ("--to", given.text("destination"))]),
        *(["--broadcast"] if given.flag("broadcast") else []),
        *(["--dry-run"] if given.dry_run else []),
    ]


def _replayed(given: Given, answer: Message) -> str:
    made = cast("dlq.CreateReplayResponse", answer).replay
    if given.dry_run:
        return f"{made.status.matched} dead letters would be sent"
    return f"replay/{made.id} begun: {made.status.matched} dead letters"


def _change(verb: str, method: str, request: type[Message], about: str, done: str, confirms: str = "") -> Action:
    return Action(
        f"{verb}-replay",
        about,
        (_REPLAY,),
        lambda given: Call("dlq", method, _with_id(request, given), replay_pb2.Replay),
        lambda given: ["dlq", verb, given.text("replay")],
        lambda given, answer: f"replay/{given.text('replay')} {done}",
        confirms=confirms,
    )


def _with_id(request: type[Message], given: Given) -> Message:
    return request(id=given.text("replay"))  # the three requests have this field alone


def _decide_command(given: Given) -> list[str]:
    refuse = ["--refuse"] if given.flag("refuse") else []
    how = "--dry-run" if given.dry_run else "--yes"
    return ["approve", given.text("approval"), *refuse, *options([("--reason", given.text("reason"))]), how]


SILENCE: Final = Action(
    "silence",
    "Tell nobody of an alert for a while.",
    (
        _ALERT,
        Argument("for", DURATION, "how long: 30m, 8h, 7d", required=True),
        Argument("reason", TEXT, "what is being done about it", required=True),
    ),
    _silence_call,
    lambda given: [
        *("silence", given.text("alert")),
        *options([("--for", given.text("for")), ("--reason", given.text("reason"))]),
    ],
    lambda given, answer: f"alert/{given.text('alert')} silenced for {given.text('for')}",
)
UNSILENCE: Final = Action(
    "unsilence",
    "End an alert's silence.",
    (_ALERT,),
    lambda given: Call(
        "lagmon",
        "DeleteSilence",
        lagmon.DeleteSilenceRequest(alert=given.text("alert")),
        lagmon.DeleteSilenceResponse,
    ),
    lambda given: ["silence", given.text("alert"), "--end"],
    lambda given, answer: f"alert/{given.text('alert')} not silenced any more",
)
REPLAY: Final = Action(
    "replay",
    "Deliver dead letters again.",
    (
        Argument("stream", TEXT, "the stream with the dead letters", required=True),
        Argument("filter", TEXT, "which of them; empty for all"),
        Argument("destination", TEXT, "STREAM or STREAM/LANE instead of each letter's own"),
        Argument("rate", NUMBER, "at most so many records a second"),
        Argument("broadcast", FLAG, "for every group, not only for the one that gave the record up"),
    ),
    _replay_call,
    _replay_command,
    _replayed,
    dry_run=True,
)
PAUSE_REPLAY: Final = _change("pause", "PauseReplay", dlq.PauseReplayRequest, "Stop a replay for a while.", "paused")
RESUME_REPLAY: Final = _change("resume", "ResumeReplay", dlq.ResumeReplayRequest, "Let a replay go on.", "goes on")
CANCEL_REPLAY: Final = _change(
    "cancel", "CancelReplay", dlq.CancelReplayRequest, "End a replay for good.", "cancelled", confirms="replay"
)
DECIDE: Final = Action(
    "decide",
    "Approve or refuse what somebody else asked for.",
    (
        Argument("approval", TEXT, "the approval's id", required=True),
        Argument("refuse", FLAG, "refuse it instead"),
        Argument("reason", TEXT, "kept with the decision"),
    ),
    lambda given: Call(
        "registry",
        "DecideApproval",
        approval_pb2.DecideApprovalRequest(
            id=given.text("approval"),
            refused=given.flag("refuse"),
            reason=given.text("reason"),
            dry_run=given.dry_run,
        ),
        approval_pb2.Approval,
    ),
    _decide_command,
    lambda given, answer: (
        f"approval/{given.text('approval')} {'refused' if given.flag('refuse') else 'approved'}"
        f"{' (dry run: nothing was changed)' if given.dry_run else ''}"
    ),
    dry_run=True,
)
