"""Builds groups for tests by folding what the decider decides, and the checkers of their invariants."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from braid.kernel.decider import Context
from braid.kernel.ids import make_epoch
from services.assigner.domain.decide import GroupDecider
from services.assigner.model.channels import (
    ChannelView,
    Presence,
    SeenChannel,
)
from services.assigner.model.commands import (
    Balance,
    Command,
    FixStart,
    Hello,
    JoinMember,
    LookAtIdle,
    ObserveChannels,
    RegisterGroup,
    Release,
    ReleaseLeases,
)
from services.assigner.model.events import (
    Event,
    LeasesGranted,
    LeasesReleased,
    RevokesStarted,
)
from services.assigner.model.group import Group, GroupSpec, LeaseState

LEADER_EPOCH = make_epoch(1, 7)
SPEC = GroupSpec(("logs",))


def member(number: int) -> str:
    """A ULID-shaped id that sorts by number."""
    return f"{number:026d}"


def context(now_ms: int = 1_000, leader_epoch: int = LEADER_EPOCH) -> Context:
    """The context of a decision by assigner-0."""
    return Context(now_ms, "assigner-0", leader_epoch=leader_epoch)


def seen(
    name: str = "logs/live/1",
    partitions: int = 4,
    presence: Presence = Presence.CONSUMABLE,
    cluster: str = "east",
) -> SeenChannel:
    """A channel as the registry tells of it."""
    return SeenChannel(name, cluster, f"braid.{name.replace('/', '.')}", partitions, presence)


def view(revision: int, *channels: SeenChannel) -> ChannelView:
    """The registry's view."""
    return ChannelView(revision, channels)


def hello(id: str, held: Iterable[tuple[str, int]] = (), **changes: Any) -> Hello:
    """A member's introduction, with some fields changed."""
    fields: dict[str, Any] = {"client_id": f"web-{id[-1]}", "zone": "a", "capacity": 2.0, "protocol_version": 1}
    fields |= {"capabilities": (), "peer": "10.0.0.1:1", **changes}
    return Hello(id, held=tuple(held), **fields)


@dataclass
class History:
    """A group's history as it grows; every command is decided on the state the events led to."""

    decider: GroupDecider = field(default_factory=GroupDecider)
    state: Group = field(default_factory=lambda: Group("indexer"))
    events: list[Event] = field(default_factory=list)
    now_ms: int = 1_000
    leader_epoch: int = LEADER_EPOCH

    def do(self, *commands: Command) -> list[Event]:
        """Decides and evolves; returns the events of all commands."""
        made: list[Event] = []
        for command in commands:
            here = context(self.now_ms, self.leader_epoch)
            for event in self.decider.decide(self.state, command, here):
                self.state = self.decider.evolve(self.state, event, here)
                made.append(event)
        self.events += made
        return made

    def give_up(self) -> list[Event]:
        """The group was waited for for as long as drains do: it is told to be idle, then given up."""
        look = LookAtIdle(self.state.idle_since_ms, 100, 100, 100)
        return self.do(look, look)

    def holders(self) -> dict[str, str]:
        """The holder of each held lease."""
        return {name: lease.holder for name, lease in sorted(self.state.leases.items()) if lease.holder}

    def settle(self) -> None:
        """Balances, with every member giving back at once what is asked of it, until nothing moves."""
        for _ in range(10):
            self.do(Balance(tuple(self.state.members)))
            if not self.settle_revokes():
                return
        raise AssertionError("the balance does not settle")

    def settle_revokes(self) -> bool:
        """Every member gives back what is asked of it; whether anything was."""
        revoking = [(n, x) for n, x in self.state.leases.items() if x.state is LeaseState.REVOKING]
        for name, lease in revoking:
            self.do(ReleaseLeases(lease.holder, (Release(name, lease.epoch),)))
        return bool(revoking)


def registered(*channels: SeenChannel, spec: GroupSpec = SPEC) -> History:
    """A group whose start is fixed in all its channels."""
    history = History()
    history.do(RegisterGroup(spec, view(10, *(channels or (seen(),)))))
    for name, channel in history.state.channels.items():
        history.do(FixStart(name, (0,) * channel.partitions))
    return history


def joined(count: int, *channels: SeenChannel, spec: GroupSpec = SPEC) -> History:
    """A settled group of members 1 … count."""
    history = registered(*channels, spec=spec)
    for number in range(1, count + 1):
        history.do(JoinMember(hello(member(number)), spec))
    history.settle()
    return history


def observe(history: History, revision: int, *channels: SeenChannel) -> list[Event]:
    """The registry speaks."""
    return history.do(ObserveChannels(view(revision, *channels)))


# --- checkers


def check_epochs(events: Sequence[Event]) -> None:
    """I6: epochs of grants strictly increase over a history."""
    last = 0
    for event in events:
        for grant in event.grants if isinstance(event, LeasesGranted) else ():
            assert grant.epoch > last, f"epoch {grant.epoch} of {grant.lease} after {last}"
            last = grant.epoch


def check_single_holder(events: Sequence[Event]) -> None:
    """A lease is granted only while nobody holds it, and only its holder is asked for it or gives it back."""
    holders: dict[str, tuple[str, int]] = {}
    for event in events:
        match event:
            case LeasesGranted(grants):
                for grant in grants:
                    assert grant.lease not in holders, f"{grant.lease} is granted while {holders[grant.lease]} holds it"
                    holders[grant.lease] = (grant.member, grant.epoch)
            case RevokesStarted(leases):
                assert all(holders.get(each.lease) == (each.member, each.epoch) for each in leases)
            case LeasesReleased(leases):
                for each in leases:
                    assert holders.pop(each.lease, None) == (each.member, each.epoch), (
                        f"{each} releases what it has not"
                    )
