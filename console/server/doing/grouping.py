"""Actions on groups: drain members, freeze moves, pin leases, resume lanes, move progress."""

from typing import Final, cast

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kernel.errors import Invalid
from console.server.doing.action import Action, Call, options
from console.server.doing.arguments import FLAG, TEXT, Argument, Given, time_ms

_ASSIGNER: Final = "assigner"
_GROUP: Final = Argument("group", TEXT, "the group's name", required=True)
_UNDO: Final = Argument("undo", FLAG, "take it back")
_REASON: Final = Argument("reason", TEXT, "kept in the group's history")


def _group_call(method: str, request: Message) -> Call:
    return Call(_ASSIGNER, method, request, group_pb2.Group)


def _drain_command(given: Given) -> list[str]:
    verb = "undrain" if given.flag("undo") else "drain"
    reason = [] if given.flag("undo") else options([("--reason", given.text("reason"))])
    return [verb, "member", given.text("member"), *options([("--group", given.text("group"))]), *reason]


def _freeze_command(given: Given) -> list[str]:
    if given.flag("undo"):
        return ["unfreeze", "group", given.text("group")]
    return ["freeze", "group", given.text("group"), *options([("--reason", given.text("reason"))])]


def _pin_call(given: Given) -> Call:
    member = "" if given.flag("undo") else given.text("member")
    if not member and not given.flag("undo"):
        raise Invalid("is missing", field="member", remedy="name the member that gets the lease")
    strict = given.flag("strict") and bool(member)
    request = api.PinLeaseRequest(group=given.text("group"), lease=given.text("lease"), member=member, strict=strict)
    return _group_call("PinLease", request)


def _pin_command(given: Given) -> list[str]:
    group = options([("--group", given.text("group"))])
    if given.flag("undo"):
        return ["unpin", "lease", given.text("lease"), *group]
    strict = ["--strict"] if given.flag("strict") else []
    return ["pin", "lease", given.text("lease"), *options([("--to", given.text("member"))]), *strict, *group]


def _reset_call(given: Given) -> Call:
    to = given.text("to")
    if to == "earliest":
        start = group_pb2.StartPosition(earliest=True)
    elif to == "latest":
        start = group_pb2.StartPosition(latest=True)
    else:
        start = group_pb2.StartPosition(time_ms=time_ms(to, "to"))
    request = api.ResetProgressRequest(
        group=given.text("group"),
        stream=given.text("stream"),
        lane=given.text("lane"),
        to=start,
        reason=given.text("reason"),
        dry_run=given.dry_run,
    )
    return Call(_ASSIGNER, "ResetProgress", request, api.ResetProgressResponse)


def _reset_command(given: Given) -> list[str]:
    pairs = [(f"--{name}", given.text(name)) for name in ("stream", "lane", "to", "reason")]
    return ["reset", "group", given.text("group"), *options(pairs), "--dry-run" if given.dry_run else "--yes"]


def _was_reset(given: Given, answer: Message) -> str:
    found = cast("api.ResetProgressResponse", answer)
    if found.refusal:
        return f"it would be refused now: {found.refusal}"
    verb = "would be moved" if given.dry_run else "was moved"
    return f"group/{given.text('group')}: progress of {len(found.partitions)} partitions {verb}"


DRAIN: Final = Action(
    "drain",
    "Empty a member of its leases, or let it have leases again.",
    (_GROUP, Argument("member", TEXT, "the member's client id, or its id", required=True), _REASON, _UNDO),
    lambda given: _group_call(
        "DrainMember",
        api.DrainMemberRequest(
            group=given.text("group"),
            member=given.text("member"),
            drained=not given.flag("undo"),
            reason="" if given.flag("undo") else given.text("reason"),
        ),
    ),
    _drain_command,
    lambda given, answer: (
        f"member/{given.text('member')} {'may hold leases again' if given.flag('undo') else 'is being drained'}"
    ),
)
FREEZE: Final = Action(
    "freeze",
    "Stop all moves of a group's leases, or let them go on.",
    (_GROUP, _REASON, _UNDO),
    lambda given: _group_call(
        "FreezeGroup",
        api.FreezeGroupRequest(
            group=given.text("group"),
            frozen=not given.flag("undo"),
            reason="" if given.flag("undo") else given.text("reason"),
        ),
    ),
    _freeze_command,
    lambda given, answer: f"group/{given.text('group')} {'moves again' if given.flag('undo') else 'frozen'}",
)
PIN: Final = Action(
    "pin",
    "Give a lease to a member for good, or take that back.",
    (
        _GROUP,
        Argument("lease", TEXT, "STREAM/LANE/GENERATION/PARTITION", required=True),
        Argument("member", TEXT, "the member's client id, or its id"),
        Argument("strict", FLAG, "nobody else gets it while that member is away"),
        _UNDO,
    ),
    _pin_call,
    _pin_command,
    lambda given, answer: (
        f"lease/{given.text('lease')} {'unpinned' if given.flag('undo') else 'pinned to ' + given.text('member')}"
    ),
)
RESUME_LANE: Final = Action(
    "resume-lane",
    "Ask members that have stopped with a lane to go on.",
    (
        _GROUP,
        Argument("lane", TEXT, "the lane's name", required=True),
        Argument("member", TEXT, "only this member; empty for all that stopped"),
    ),
    lambda given: _group_call(
        "ResumeLane",
        api.ResumeLaneRequest(group=given.text("group"), lane=given.text("lane"), member=given.text("member")),
    ),
    lambda given: [
        *("resume", "group", given.text("group")),
        *options([("--lane", given.text("lane")), ("--member", given.text("member"))]),
    ],
    lambda given, answer: f"group/{given.text('group')} was asked to go on with {given.text('lane')}",
)
RESET: Final = Action(
    "reset",
    "Move a group's progress: what lies before the new place comes again.",
    (
        _GROUP,
        Argument("stream", TEXT, "of which stream", required=True),
        Argument("lane", TEXT, "only of this lane"),
        Argument("to", TEXT, "earliest, latest, or a moment with its time zone", required=True),
        _REASON,
    ),
    _reset_call,
    _reset_command,
    _was_reset,
    dry_run=True,
    confirms="group",
)
