"""Rules on a group's requests: bounds of a spec, existing streams and lanes, and how far a hello may differ. Pure.

Every refusal names the field at fault, as the request spells it (`spec.streams`).
"""

from hmac import compare_digest
from typing import Final

from braid.kernel.capabilities import WORK_DIVISION
from braid.kernel.errors import Conflict, Exhausted, Invalid, NotFound, Refused, Unauthenticated, Unsupported
from braid.kernel.ids import ChannelId, check_name
from braid.kernel.limits.assigner.leases import (
    GROUP_MEMBERS_MAX,
    GROUP_STREAMS_MAX,
    HELLO_TEXT_MAX,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
)
from braid.kernel.limits.assigner.placement import CAPACITY_MAX, CAPACITY_MIN
from braid.kernel.limits.names import LANES_MAX
from services.assigner.model.channels import ChannelView
from services.assigner.model.commands import Hello
from services.assigner.model.group import DEAD_LETTER_LANE, Fencing, Group, GroupSpec, Ownership, StartKind

PROTOCOL_VERSION: Final = 1
GENERATIONS: Final = "generations"  # commits with what it is lent, and asks when that is refused
BEATS: Final = "beats"  # lets its heartbeats travel with those of others, by the ticket it is given
QUEUED: Final = "queued"  # waits for its welcome as long as it is told to
SECRET: Final = "secret"  # shows the secret of its welcome whenever it comes back
CAPABILITIES: Final[tuple[str, ...]] = (GENERATIONS, BEATS, QUEUED, SECRET, WORK_DIVISION)
FENCING_DEFAULT: Final = Fencing.GENERATION  # of new groups whose first member can work with it
_ULID_LENGTH: Final = 26


def check_spec(spec: GroupSpec) -> None:
    """Checks form and bounds. Raises `Invalid` naming the field."""
    if not 1 <= len(spec.streams) <= GROUP_STREAMS_MAX:
        raise Invalid(f"a group consumes 1 to {GROUP_STREAMS_MAX} streams", field="spec.streams")
    for stream in spec.streams:
        check_name(stream, "spec.streams")
    if len(spec.lanes) > LANES_MAX:
        raise Invalid(f"more than {LANES_MAX} lanes", field="spec.lanes")
    for lane, share in spec.lanes:
        check_name(lane, "spec.lanes")
        if share < 1:
            raise Invalid(
                f"a share of {share}", field=f"spec.lanes.{lane}", remedy="leave the lane out, or use 1 or more"
            )
    if not LEASE_MS_MIN <= spec.lease_ms <= LEASE_MS_MAX:
        raise Invalid(f"{spec.lease_ms} ms is not {LEASE_MS_MIN} to {LEASE_MS_MAX}", field="spec.lease_ms")
    if spec.start.kind is StartKind.TIME and spec.start.time_ms < 0:
        raise Invalid("a time before 1970", field="spec.start.time_ms")


def check_known(spec: GroupSpec, view: ChannelView) -> None:
    """Checks that the registry has the streams, and lanes of these names in at least one of them.

    Raises:
        NotFound: it has not.
    """
    channels = [ChannelId.parse(seen.name) for seen in view.channels]
    streams = {channel.stream for channel in channels}
    for stream in spec.streams:
        if stream not in streams:
            raise NotFound(f"there is no stream {stream!r}", field="spec.streams", remedy="create the stream first")
    lanes = {channel.lane for channel in channels if channel.stream in spec.streams} | {DEAD_LETTER_LANE}
    for lane, _ in spec.lanes:
        if lane not in lanes:
            known = ", ".join(sorted(lanes))
            raise NotFound(
                f"no stream of the group has a lane {lane!r}", field=f"spec.lanes.{lane}", remedy=f"use {known}"
            )


def check_owner(state: Group, member: str, principal: str, secret_digest: str) -> None:
    """Raises `Unauthenticated` when a member comes back as another principal, or without the secret it was given.

    Args:
        state: The group.
        member: The id of who comes back.
        principal: That of its certificate or token; empty where it shows none.
        secret_digest: Of the secret it shows; empty where it shows none.
    """
    known = state.members.get(member)
    if known is not None and known.principal and known.principal != principal:
        other = principal or "a caller without TLS"
        raise Unauthenticated(
            f"member {member} of {state.name} joined as {known.principal}, not as {other}",
            field="hello.member_id",
            remedy="leave the member id out, and join as a new member",
        )
    if known is not None and known.secret_digest and not compare_digest(known.secret_digest, secret_digest):
        shown = "another secret than it was given" if secret_digest else "no secret"
        raise Unauthenticated(
            f"who comes back as member {member} of {state.name} shows {shown}",
            field="hello.resume_secret",
            remedy="leave the member id out, and join as a new member",
        )


def check_hello(hello: Hello) -> None:
    """Checks what a member says of itself.

    Raises:
        Unsupported: the protocol version is none this release speaks.
        Invalid: the member id is no ULID, a text is too long, or the capacity is absurd.
    """
    if hello.protocol_version < 1:
        raise Unsupported(
            f"protocol version {hello.protocol_version} is not supported here",
            field="hello.protocol_version",
            remedy=f"speak version {PROTOCOL_VERSION}",
        )
    if len(hello.member) != _ULID_LENGTH or not hello.member.isalnum():
        raise Invalid(
            f"{hello.member!r} is not a ULID", field="hello.member_id", remedy="leave it empty at the first join"
        )
    for field, text in (("client_id", hello.client_id), ("zone", hello.zone)):
        if len(text) > HELLO_TEXT_MAX:
            raise Invalid(f"longer than {HELLO_TEXT_MAX} characters", field=f"hello.{field}")
    if len(hello.capabilities) > HELLO_TEXT_MAX or any(len(text) > HELLO_TEXT_MAX for text in hello.capabilities):
        raise Invalid("too many or too long", field="hello.capabilities")
    if hello.capacity != 0:
        check_capacity(hello.capacity, "hello.capacity")


def check_capacity(capacity: float, field: str) -> None:
    """Raises `Invalid` for a capacity that no process has, or that is too small for any lease."""
    if not CAPACITY_MIN <= capacity <= CAPACITY_MAX:
        raise Invalid(
            f"a capacity of {capacity}",
            field=field,
            remedy=f"use {CAPACITY_MIN} to {CAPACITY_MAX}: processors kept busy",
        )


def check_matches(group: str, registered: GroupSpec, asked: GroupSpec, unsaid: frozenset[str]) -> None:
    """Checks that a member asks for what its group is registered for. Shares, lease time and start may differ.

    Raises:
        Invalid: streams, lanes or ownership differ; asking again cannot mend that.
    """
    pairs = {
        "streams": (list(registered.streams), list(asked.streams)),
        "lanes": ([lane for lane, _ in registered.lanes], [lane for lane, _ in asked.lanes]),
        "ownership": (registered.ownership.name.lower(), asked.ownership.name.lower()),
        "fencing": (registered.fencing.name.lower(), asked.fencing.name.lower()),
    }
    for field, (has, wants) in pairs.items():
        if field not in unsaid and has != wants:
            raise Invalid(
                f"group {group!r} is registered with {field} {has or 'of every kind'}, not {wants or 'of every kind'}",
                field=f"spec.{field}",
                remedy="ask for what the group has, update the group first, or use another group's name",
            )


def check_fencing(group: str, registered: GroupSpec, hello: Hello) -> None:
    """Raises `Unsupported` for a member that cannot commit with lent generations in a group that is fenced by them."""
    if registered.fencing is Fencing.GENERATION and GENERATIONS not in hello.capabilities:
        raise Unsupported(
            f"group {group!r} is fenced by generations, which this member cannot work with",
            field="hello.capabilities",
            remedy="run a newer release of the member, or set the group's fencing to none",
        )


def check_room(state: Group) -> None:
    """Raises `Exhausted` when the group takes no further member."""
    if len(state.members) >= GROUP_MEMBERS_MAX:
        raise Exhausted(f"group {state.name!r} has {GROUP_MEMBERS_MAX} members", remedy="use more groups")


def check_etag(state: Group, etag: str) -> None:
    """Raises `Conflict` when a given etag is not the current one."""
    if etag and etag != etag_of(state):
        raise Conflict(f"group {state.name!r} was changed meanwhile", field="etag", remedy="read it again, then retry")


def etag_of(state: Group) -> str:
    """Changes with every change of the spec."""
    return str(state.spec_changes)


def check_update(state: Group, registered: GroupSpec, spec: GroupSpec) -> None:
    """Checks a change of a registered group: the start was fixed once, and members stand on their lease time.

    Raises:
        Refused: the change is not allowed, or not now.
    """
    if spec.start != registered.start:
        raise Refused(
            "the start was fixed at registration", field="spec.start", remedy="reset the group's progress instead"
        )
    if spec.fencing is Fencing.GENERATION and registered.fencing is Fencing.NONE and state.fences:
        raise Refused(
            f"the group's earlier memberships have yet to end on {', '.join(sorted(state.fences))}",
            field="spec.fencing",
            remedy="try again once these clusters have answered",
        )
    if spec.fencing is not registered.fencing and state.members:
        raise Refused(
            "fencing cannot change while the group has members", field="spec.fencing", remedy="stop them first"
        )
    if spec.ownership is not registered.ownership and state.members:
        raise Refused(
            "ownership cannot change while the group has members", field="spec.ownership", remedy="stop them first"
        )
    if spec.lease_ms != registered.lease_ms and spec.ownership is Ownership.EXCLUSIVE and state.members:
        raise Refused(
            "the lease time of an exclusive group cannot change while it has members",
            field="spec.lease_ms",
            remedy="stop them first",
        )
