"""Actions of the invented mesh's console, as its server lists them."""

from typing import Final

from tests.support.console.documents import Document


def _argument(name: str, about: str, kind: str = "text", required: bool = False) -> Document:
    return {"name": name, "type": kind, "required": required, "about": about}


def _action(verb: str, about: str, arguments: list[Document], dry_run: bool = False, confirms: str = "") -> Document:
    return {
        "verb": verb,
        "about": about,
        "dry_run": dry_run,
        "destructive": bool(confirms),
        "confirms": confirms,
        "arguments": arguments,
    }


_GROUP: Final = _argument("group", "The group.", required=True)
_REASON: Final = _argument("reason", "For people who ask why.")
_UNDO: Final = _argument("undo", "Take it back.", "flag")
_REPLAY: Final = _argument("replay", "The replay.", required=True)
_REPLAYS: Final = {
    "pause-replay": "Hold a replay.",
    "resume-replay": "Go on with a replay.",
    "cancel-replay": "End a replay; what it sent stays.",
}
ACTIONS: Final = [
    _action(
        "move",
        "Send a stream's new records to another cluster.",
        [
            _argument("stream", "The stream.", required=True),
            _argument("lanes", "Some of its lanes; all where it is empty.", "list"),
            _argument("to", "The cluster that takes the traffic."),
            _argument("percent", "Its share of a hundred records.", "number"),
            _REASON,
        ],
        dry_run=True,
    ),
    _action(
        "drain",
        "Empty a member of leases.",
        [_GROUP, _argument("member", "The member.", required=True), _REASON, _UNDO],
    ),
    _action("freeze", "Keep every lease where it is.", [_GROUP, _REASON, _UNDO]),
    _action(
        "reset",
        "Move a group's progress.",
        [_GROUP, _argument("to", "earliest, latest or a time.", required=True), _REASON],
        True,
        "group",
    ),
    _action(
        "silence",
        "Tell nobody of an alert for a time.",
        [
            _argument("alert", "The alert.", required=True),
            _argument("for", "How long.", "duration", True),
            _argument("reason", "Why.", required=True),
        ],
    ),
    _action(
        "replay",
        "Send dead letters again.",
        [
            _argument("stream", "The stream.", required=True),
            _argument("filter", "Which letters."),
            _argument("rate", "Records a second.", "number"),
        ],
        True,
    ),
    _action("unsilence", "Tell of an alert again.", [_argument("alert", "The alert.", required=True)]),
    _action(
        "pin",
        "Keep a lease with a member.",
        [_GROUP, _argument("lease", "The lease.", required=True), _argument("member", "The member."), _UNDO],
    ),
    *(_action(verb, about, [_REPLAY]) for verb, about in _REPLAYS.items()),
    _action(
        "decide",
        "Answer a request of another person.",
        [
            _argument("approval", "The request.", required=True),
            _argument("refuse", "Do not allow it.", "flag"),
            _REASON,
        ],
    ),
    _action(
        "cordon", "Let no new traffic come to a cluster.", [_argument("cluster", "The cluster.", required=True), _UNDO]
    ),
]


def command_of(verb: str, body: Document) -> str:
    """Returns the command-line twin, roughly: the real server asks the real command line."""
    words = [
        f"--{name} {value}" for name, value in body.items() if name not in ("stream", "group", "request_id", "confirm")
    ]
    return " ".join(["braid", verb, str(body.get("stream") or body.get("group") or ""), *words])
