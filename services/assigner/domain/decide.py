"""The rules of a group: which events each command leads to. Pure: no I/O, no clock, no chance.

Invariants of every prefix of every history:

- A lease has at most one holder.
- Epochs of grants strictly increase over the whole history and are never reused, even after the group's deletion.
- A held lease changes hands only through a release.
- Only an explicit removal at a higher registry revision removes a channel.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from braid.kernel.access.tenants import DEFAULT_TENANT
from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, NotFound, Refused, Unavailable
from services.assigner.domain import admission, idle_wait, operator_rules, responses, scaling, unfencing
from services.assigner.domain.evolve import evolve
from services.assigner.model import (
    backlog_splits,
    generations,
    group_channels,
    progress_findings,
    progress_resets,
    stopped_lanes,
)
from services.assigner.model.backlog_splits import ReportSplits, SplitBacklog
from services.assigner.model.channels import (
    ChannelView,
    CloseChannel,
    EndReading,
    FinishReading,
)
from services.assigner.model.commands import (
    Balance,
    Command,
    DeleteGroup,
    EndMembership,
    FixStart,
    Hello,
    IntendBump,
    JoinMember,
    LookAtIdle,
    ObserveChannels,
    RecordAside,
    RecordBump,
    RegisterGroup,
    ReleaseLeases,
    RemoveMember,
    TakeOverdue,
    Together,
    UpdateGroup,
    WaiveFencing,
)
from services.assigner.model.events import (
    Event,
    GroupDeleted,
    GroupRegistered,
    GroupUpdated,
    LeaseGrant,
    MemberGone,
    MemberJoined,
    ReleaseReason,
    StartFixed,
    released,
)
from services.assigner.model.group import Group, GroupSpec, LeaseState
from services.assigner.model.lag.response_events import SetResponses, TakeResponse, UndoResponse
from services.assigner.model.lag.scaling_events import DesireCapacity, SetScaling
from services.assigner.model.progress_findings import ReportDoubts
from services.assigner.model.progress_resets import RecordReset, ResetProgress
from services.assigner.model.stopped_lanes import ReportStops, ResumeLane
from services.assigner.policy.balance import Assignor, balance
from services.assigner.policy.by_number import place


@dataclass(frozen=True, slots=True)
class GroupDecider:
    """The rules of kind `group` with a placement algorithm; implements `kernel.decider.Decider`."""

    assign: Assignor = place

    def initial(self, history: str) -> Group:
        """Returns the state of a group that is not registered."""
        return Group(history)

    def decide(self, state: Group, command: Command, context: Context) -> Sequence[Event]:
        """Returns the events the command leads to. Raises `BraidError` to refuse; then nothing has changed."""
        match command:
            case RegisterGroup(spec, view):
                return _register(state, spec, view, context)
            case UpdateGroup():
                return _update(state, command)
            case DeleteGroup(etag):
                return _delete(state, etag)
            case JoinMember():
                return _join(state, command, context)
            case RemoveMember():
                return _remove(state, command)
            case ObserveChannels(view):
                return group_channels.observe(state, view)
            case CloseChannel() | FinishReading() | EndReading():
                return group_channels.decide(state, command)
            case FixStart(channel, offsets):
                return _fix_start(state, channel, offsets)
            case ReleaseLeases():
                return _release(state, command)
            case TakeOverdue(leases):
                return _take(state, leases)
            case Balance():
                return self._balance(state, command, context)
            case IntendBump() | RecordBump() | WaiveFencing():
                return generations.decide(state, command)
            case RecordAside() | EndMembership():
                return unfencing.decide(state, command)
            case ResetProgress() | RecordReset():
                registered_spec(state)
                return progress_resets.decide(state, command)
            case ReportStops() | ResumeLane():
                return stopped_lanes.decide(state, command)
            case ReportDoubts():
                return progress_findings.decide(state, command)
            case SplitBacklog() | ReportSplits():
                if isinstance(command, SplitBacklog):
                    registered_spec(state)
                return backlog_splits.decide(state, command)
            case LookAtIdle():
                return idle_wait.decide(state, command)
            case SetScaling() | DesireCapacity():
                return scaling.decide(state, command, context)
            case SetResponses() | TakeResponse() | UndoResponse():
                return responses.decide(state, command)
            case Together(commands):
                return self._decide_all(state, commands, context)
            case _:
                return operator_rules.decide(state, command, context)

    def evolve(self, state: Group, event: Event, context: Context) -> Group:
        """Returns the state after the event."""
        return evolve(state, event, context)

    def _balance(self, state: Group, command: Balance, context: Context) -> Sequence[Event]:
        bumps = generations.after_restore(state, context)
        for event in bumps:
            state = evolve(state, event, context)
        moves = balance(state, command.live, context, self.assign, command.loads)
        return [*bumps, *moves, *operator_rules.finished(state), *generations.intents(state)]

    def _decide_all(self, state: Group, commands: Iterable[Command], context: Context) -> Sequence[Event]:
        events: list[Event] = []
        for command in commands:
            for event in self.decide(state, command, context):
                state = evolve(state, event, context)
                events.append(event)
        return events


def registered_spec(state: Group) -> GroupSpec:
    """The group's spec. Raises `NotFound` when it is not registered."""
    if state.spec is None:
        remedy = "list them: braid get groups; a group is made by its first member"
        raise NotFound(f"there is no group {state.name!r}", field="name", remedy=remedy)
    return state.spec


# --- the group itself


def _register(state: Group, spec: GroupSpec, view: ChannelView, context: Context) -> Sequence[Event]:
    """Registers a group in the channels of the view.

    Channels that can be consumed now, and drained ones by the start position, wait until their start is fixed. Later
    channels begin at the start of their logs.
    """
    if state.spec is not None:
        raise AlreadyExists(f"there is a group {state.name!r} already", field="name")
    admission.check_spec(spec)
    admission.check_known(spec, view)
    present = group_channels.first_seen(spec, view, frozenset(), appeared_later=False)
    tenant = "" if context.tenant == DEFAULT_TENANT else context.tenant
    return [GroupRegistered(spec, tenant), *present, *group_channels.left_to_read(spec, view, None, frozenset())]


def _update(state: Group, command: UpdateGroup) -> Sequence[Event]:
    registered = registered_spec(state)
    admission.check_etag(state, command.etag)
    admission.check_spec(command.spec)
    admission.check_known(command.spec, command.view)
    admission.check_update(state, registered, command.spec)
    if command.spec == registered:
        return ()
    known = frozenset(state.channels)
    later = group_channels.first_seen(command.spec, command.view, known, appeared_later=True)
    drained = group_channels.left_to_read(command.spec, command.view, registered, known)
    return [GroupUpdated(command.spec), *later, *drained]


def _delete(state: Group, etag: str) -> Sequence[Event]:
    registered_spec(state)
    admission.check_etag(state, etag)
    if state.members:
        count = len(state.members)
        raise Refused(f"group {state.name!r} has {count} members", field="name", remedy="stop its members first")
    return [GroupDeleted()]


# --- members


def _join(state: Group, command: JoinMember, context: Context) -> Sequence[Event]:
    """Joins a member; a known one keeps the leases it still names. Leases that it does not name are free again."""
    hello = command.hello
    admission.check_hello(hello)
    admission.check_owner(state, hello.member, hello.principal, hello.secret_digest)
    events: list[Event] = []
    if state.spec is None:
        if command.view is None:
            raise Unavailable("the registry's channels are not known yet", remedy="try again")
        events += _register(state, command.spec, command.view, context)
    else:
        admission.check_matches(state.name, state.spec, command.spec, command.unsaid)
        admission.check_fencing(state.name, state.spec, hello)
    if hello.member not in state.members:
        admission.check_room(state)
    if _joins_anew(state, hello):
        events.append(_joined(state, hello))
    held = frozenset(hello.held)
    dropped = [
        grant
        for grant in _grants_of(state, hello.member)
        if (grant.lease, grant.epoch) not in held or generations.may_be_outdated(state, grant.epoch, context)
    ]
    waived = {grant.lease for grant in dropped}  # nobody says that what was done there is committed
    return [*events, *released(dropped, ReleaseReason.RELEASED, waived)]


def _joins_anew(state: Group, hello: Hello) -> bool:
    member = state.members.get(hello.member)
    return member is None or (
        (member.client_id, member.zone, member.capacity, member.protocol_version, member.capabilities, member.principal)
        != (hello.client_id, hello.zone, hello.capacity, hello.protocol_version, hello.capabilities, hello.principal)
    )


def _joined(state: Group, hello: Hello) -> Event:
    return MemberJoined(
        hello.member,
        hello.client_id,
        hello.zone,
        hello.capacity,
        hello.protocol_version,
        hello.capabilities,
        hello.peer,
        hello.principal,
        hello.secret_digest if hello.member not in state.members else "",
    )


def _remove(state: Group, command: RemoveMember) -> Sequence[Event]:
    if command.member not in state.members:
        return ()
    gone = MemberGone(command.member, command.reason)
    return [gone, *released(list(_grants_of(state, command.member)), ReleaseReason.MEMBER_GONE)]


# --- channels


def _fix_start(state: Group, channel: str, offsets: tuple[int, ...]) -> Sequence[Event]:
    known = state.channels.get(channel)
    return [StartFixed(channel, offsets)] if known is not None and known.awaits_start else ()


# --- leases


def _grants_of(state: Group, member: str) -> Iterable[LeaseGrant]:
    for name, lease in state.held_by(member).items():
        yield LeaseGrant(name, member, lease.epoch)


def _release(state: Group, command: ReleaseLeases) -> Sequence[Event]:
    """Frees leases that a member gives back. An old epoch, a ghost or a repeated release leads to nothing."""
    valid = {}
    for release in command.releases:
        lease = state.leases.get(release.lease)
        if lease is not None and (lease.holder, lease.epoch) == (command.member, release.epoch):
            valid[release.lease] = release
    if command.member not in state.members:
        return ()
    grants = [LeaseGrant(name, command.member, release.epoch) for name, release in valid.items()]
    waived = {name for name, release in valid.items() if release.commit_waived}
    return released(grants, ReleaseReason.RELEASED, waived)


def _take(state: Group, leases: Iterable[tuple[str, int]]) -> Sequence[Event]:
    """Takes leases that are still being revoked under the epoch that was judged."""
    taken = []
    for name, epoch in leases:
        lease = state.leases.get(name)
        if lease is not None and lease.state is LeaseState.REVOKING and lease.epoch == epoch:
            taken.append(LeaseGrant(name, lease.holder, epoch))
    return released(taken, ReleaseReason.TAKEN)
