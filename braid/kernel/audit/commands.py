"""The command of `braid` that would do what a request asks for, where there is one. Pure.

Of a request only the fields listed here are read, so that nothing else can get into a record: no filters, which may
hold keys of records, no reasons, no credentials.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, cast

from braid.kernel.audit.calls import shown
from braid.kernel.limits.access.audit import AUDIT_COMMAND_CHARS_MAX, AUDIT_RESOURCES_MAX

_QUOTED: Final = frozenset(" '\"*?$&|;<>()`\\!#~{}[]")
# Words of the command line by their number on the wire.
_NAMED: Final = {
    "role": ("", "viewer", "producer", "consumer", "operator", "stream-owner", "admin"),
    "zones": ("", "any", "prefer", "strict"),
    "scaling_mode": ("", "off", "propose", "automatic"),
}


class Twin(NamedTuple):
    """The command of a method.

    Attributes:
        words: Verb and type.
        names: Fields that follow them, in order; `role#role` is a number that has a word.
        options: Flags, each with its field: a list repeats the flag, and a truth value is the flag alone. Of a mapping
            `lanes:partitions` is a key and a field of its value, as `live=4`.
        otherwise: The words where a request takes the command back.
        undone: The field that says so; with `!` before it, when it is false.
    """

    words: str
    names: Sequence[str] = ()
    options: Sequence[tuple[str, str]] = ()
    otherwise: str = ""
    undone: str = ""


_DRY: Final = ("--dry-run", "dry_run")
_GROUP: Final = ("--group", "group")

COMMANDS: Final[Mapping[tuple[str, str], Twin]] = {
    ("registry", "CreateStream"): Twin("create stream", ("name",), (("--lane", "spec.lanes:partitions"), _DRY)),
    ("registry", "UpdateStream"): Twin("apply -f FILE", (), (_DRY,)),
    ("registry", "DeleteStream"): Twin("delete stream", ("name",)),
    ("registry", "CreateCluster"): Twin(
        "create cluster", ("name",), (("--bootstrap", "spec.bootstrap"), ("--zone", "spec.zone"), _DRY)
    ),
    ("registry", "UpdateCluster"): Twin("apply -f FILE", (), (_DRY,)),
    ("registry", "DeleteCluster"): Twin("delete cluster", ("name",)),
    ("registry", "CordonCluster"): Twin("cordon cluster", ("name",), otherwise="uncordon cluster", undone="!cordoned"),
    ("registry", "DecommissionCluster"): Twin(
        "decommission cluster",
        ("name",),
        (("--cancel", "cancelled"), ("--discard-drained", "discard_drained"), _DRY),
    ),
    ("registry", "MoveStream"): Twin(
        "move stream",
        ("stream",),
        (
            ("--lane", "lanes"),
            ("--to", "to_cluster"),
            ("--away-from", "away_from_cluster"),
            ("--partitions", "partitions"),
            ("--percent", "percent"),
            _DRY,
        ),
    ),
    ("registry", "CloseChannel"): Twin("close channel", ("channel",), (_DRY,)),
    ("registry", "ReleaseChannel"): Twin("release channel", ("channel",)),
    ("registry", "GrantAccess"): Twin(
        "grant", ("spec.role#role",), (("--to", "spec.principal"), ("--on", "spec.resource"), _DRY)
    ),
    ("registry", "RevokeAccess"): Twin("revoke", ("role#role",), (("--from", "principal"), ("--on", "resource"))),
    ("registry", "RevokeIdentity"): Twin("certs revoke", ("identity",), (("--yes", "confirmed"), _DRY)),
    ("registry", "LiftRevocation"): Twin("certs revoke --lift", ("identity",), (_DRY,)),
    ("registry", "SetTenant"): Twin("apply -f FILE", (), (_DRY,)),
    ("registry", "DeleteTenant"): Twin("delete tenant", ("name",)),
    ("registry", "SetApprovalPolicy"): Twin("apply -f FILE", (), (_DRY,)),
    ("registry", "DeleteApprovalPolicy"): Twin("delete approvalpolicy", ("name",)),
    ("registry", "DecideApproval"): Twin("approve", ("id",), (("--refuse", "refused"), _DRY)),
    ("assigner", "UpdateGroup"): Twin("set fencing", ("name",)),
    ("assigner", "DeleteGroup"): Twin("delete group", ("name",)),
    ("assigner", "PinLease"): Twin(
        "pin lease",
        ("lease",),
        (("--to", "member"), _GROUP, ("--strict", "strict")),
        otherwise="unpin lease",
        undone="!member",
    ),
    ("assigner", "BanMember"): Twin(
        "ban member",
        ("member",),
        (("--from", "path"), ("--from-cluster", "cluster"), _GROUP),
        otherwise="unban member",
        undone="lifted",
    ),
    ("assigner", "FreezeGroup"): Twin("freeze group", ("group",), otherwise="unfreeze group", undone="!frozen"),
    ("assigner", "DrainMember"): Twin(
        "drain member", ("member",), (_GROUP,), otherwise="undrain member", undone="!drained"
    ),
    ("assigner", "SetCapacity"): Twin("set capacity", ("member", "capacity"), (_GROUP,)),
    ("assigner", "SetSpreading"): Twin("set zones", ("group", "zones#zones"), otherwise="set hosts", undone="!zones"),
    ("assigner", "SetPolicy"): Twin("set policy", ("group",)),
    ("assigner", "SetShadow"): Twin("set shadow", ("group",)),
    ("assigner", "SetScaling"): Twin(
        "set scaling",
        ("group", "policy.mode#scaling_mode"),
        (("--min", "policy.min_members"), ("--max", "policy.max_members")),
    ),
    ("assigner", "SetResponses"): Twin("set responses", ("group",)),
    ("assigner", "ResetProgress"): Twin("reset group", ("group",), (("--stream", "stream"), ("--lane", "lane"), _DRY)),
    ("assigner", "ResumeLane"): Twin("resume group", ("group",), (("--lane", "lane"), ("--member", "member"))),
    ("assigner", "SplitBacklog"): Twin(
        "split",
        ("group", "stream"),
        (("--lane", "lane"), ("--partition", "partition"), ("--share", "share"), ("--relaxed", "relaxed")),
    ),
    ("lagmon", "CreateSilence"): Twin("silence", ("alert",)),
    ("lagmon", "DeleteSilence"): Twin("silence --end", ("alert",)),
    ("dlq", "CreateReplay"): Twin(
        "dlq replay",
        (),
        (
            ("--stream", "spec.stream"),
            ("--to", "spec.destination"),
            ("--rate", "spec.rate_per_s"),
            ("--broadcast", "spec.broadcast"),
            _DRY,
        ),
    ),
    ("dlq", "PauseReplay"): Twin("dlq pause", ("id",)),
    ("dlq", "ResumeReplay"): Twin("dlq resume", ("id",)),
    ("dlq", "CancelReplay"): Twin("dlq cancel", ("id",)),
    ("dlq", "GetDeadLetter"): Twin("describe deadletter", ("name",)),
}

# Changes that no command makes: applications and services ask for them.
WITHOUT: Final = frozenset(
    {
        ("registry", "EndDrill"),
        ("registry", "ClaimApproval"),
        ("assigner", "CreateGroup"),
        ("assigner", "CloseChannel"),
    }
)


def command_of(service: str, rpc: str, request: object | None) -> str:
    """The command line that would do what a request asks for; empty where there is none.

    It names what the request is about and how; what records leave out on purpose is missing in it, too.
    """
    twin = COMMANDS.get((service, rpc))
    if twin is None or request is None:
        return ""
    undone = bool(twin.undone) and _undone(twin.undone, request)
    words = ["braid", *(twin.otherwise if undone else twin.words).split()]
    for field in twin.names:
        words += _texts(field, request)
    for flag, field in twin.options:
        for text in _texts(field, request):
            words += [flag, text] if text else [flag]
    return " ".join(map(_quoted, words))[:AUDIT_COMMAND_CHARS_MAX]


def _undone(field: str, request: object) -> bool:
    return field.startswith("!") is not bool(_value(field.lstrip("!"), request))


def _texts(field: str, request: object) -> Iterator[str]:
    """A field's values as words: none when it is not set, an empty one for a truth value that is true."""
    path, _, words = field.partition("#")
    path, _, inner = path.partition(":")
    value = _value(path, request)
    if inner:
        yield from _pairs(cast("Mapping[str, object]", value), inner)
    elif words:
        names, number = _NAMED[words], cast("int", value)
        if 0 < number < len(names):
            yield names[number]
    elif isinstance(value, bool):
        yield from [""] if value else []
    elif isinstance(value, str | int | float):
        yield from [_number(value) if isinstance(value, float) else shown(str(value))] if value else []
    else:
        yield from (shown(str(each)) for each in islice(cast("Iterable[object]", value), AUDIT_RESOURCES_MAX))


def _pairs(entries: Mapping[str, object], inner: str) -> Iterator[str]:
    for name in sorted(entries)[:AUDIT_RESOURCES_MAX]:
        yield f"{shown(name)}={getattr(entries[name], inner)}"


def _value(path: str, request: object) -> object:
    value = request
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _number(value: float) -> str:
    return f"{value:g}"


def _quoted(word: str) -> str:
    if word and not _QUOTED.intersection(word):
        return word
    escaped = word.replace("'", "'\\''")
    return f"'{escaped}'"
