"""The cost of a whole decision of the assigner: from a signal to the events, and to the state after them.

A group holds its partitions in channels of 1,000, each costing what it was measured to cost. A decision is what the
leader makes of a signal: costs as of now, the rules, the placement, the events, and the state they lead to.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from braid.kernel.decider import Context
from braid.kernel.ids import ChannelId, make_epoch
from services.assigner.domain.decide import GroupDecider
from services.assigner.model.commands import (
    Balance,
    Command,
    Hello,
    JoinMember,
    RemoveMember,
    Together,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
)
from services.assigner.model.group import Channel, Fencing, Group, GroupSpec, Lease, LeaseState, Member
from services.assigner.policy.measured_loads import GroupLoads, Sample

DECISIONS: Final = 30
PER_CHANNEL: Final = 1_000
SIGMA: Final = 0.5  # of the log-normal costs
BEAT: Final = 5.0  # between heartbeats, longer than in life: only what they say is wanted here
NOW_MS: Final = 10**9
_DECIDER: Final = GroupDecider()


@dataclass
class Scene:
    """A group, what was measured of it, and a clock in seconds."""

    state: Group
    loads: GroupLoads
    now: float

    def decides(self, live: tuple[str, ...], *commands: Command) -> tuple[Sequence[Event], Group]:
        """The leader's events, and the state after them; the scene stays as it is."""
        context = Context(NOW_MS + round(self.now * 1000), "assigner-0", leader_epoch=make_epoch(1, 7))
        balance = Balance(live, self.loads.taken(self.state, self.now))
        events = _DECIDER.decide(self.state, Together((*commands, balance)), context)
        state = self.state
        for event in events:
            state = _DECIDER.evolve(state, event, context)
        return events, state


def scene(members: int, partitions: int, *, by_load: bool) -> Scene:
    """A group at rest: its costs are such that a step finds nothing to do."""
    ids = [f"{number:026d}" for number in range(members)]
    names = [f"logs/live/{number + 1}" for number in range(partitions // PER_CHANNEL)]
    channels = {
        name: Channel(ChannelId.parse(name), "east", f"braid.{number}", PER_CHANNEL, True, 1, True)
        for number, name in enumerate(names)
    }
    leases = {
        f"{names[at // PER_CHANNEL]}/{at % PER_CHANNEL}": Lease(
            LeaseState.HELD, ids[at % members], make_epoch(1, at + 1), 0
        )
        for at in range(partitions)
    }
    state = Group(
        "indexer",
        GroupSpec(("logs",), fencing=Fencing.NONE),
        members={id: Member(id, f"web-{id[-5:]}", "a", 1.0, 1, (), f"10.0.0.1:{id[-5:]}", 0) for id in ids},
        channels=channels,
        leases=leases,
        last_epoch=make_epoch(1, partitions),
    )
    assert len(state.member_columns.ids) == members  # a leader's state has its columns since its first decision
    made = Scene(state, GroupLoads(0.0), 0.0)
    if by_load:
        _measure(made, list(leases), ids)
    return made


def _measure(made: Scene, names: Sequence[str], ids: Sequence[str]) -> None:
    """Heartbeats of some time: members bear alike, partitions cost unlike."""
    drawn = np.random.default_rng(5).lognormal(0.0, SIGMA, len(names))
    per_member = np.zeros(len(ids))
    np.add.at(per_member, np.arange(len(names)) % len(ids), drawn)
    busy = drawn / per_member[np.arange(len(names)) % len(ids)] * 0.5
    samples: list[list[Sample]] = [[] for _ in ids]
    for at, (name, cost) in enumerate(zip(names, busy.tolist(), strict=True)):
        samples[at % len(ids)].append(Sample(name, 0, 0, round(cost * BEAT * 1e6)))
    for beat in range(1, 6):
        made.now = beat * BEAT
        for id, told in zip(ids, samples, strict=True):
            made.loads.heard(made.state, id, made.now, told)


def rows(*, quick: bool) -> dict[str, str]:
    """All that is measured here."""
    if quick:
        return facts(90, 1_000, 2)
    most = facts(9_900, 99_000, DECISIONS) | facts(9_900, 990_000, DECISIONS // 3)
    return most | {"10 die of 1,000 members, 100,000 partitions, by load": many_die(1_000, 100_000, 10, DECISIONS)}


def facts(members: int, partitions: int, times: int) -> dict[str, str]:
    """Rows for a table: name → how long."""
    size = f"{members:,} members, {partitions:,} partitions"
    told: dict[str, str] = {}
    for how in ("by number", "by load"):
        at_rest = scene(members, partitions, by_load=how == "by load")
        look = lambda at_rest=at_rest: at_rest.loads.uneven(at_rest.state, at_rest.now)  # noqa: E731
        told[f"one dies, {size}, {how}"] = _timed([_dying(at_rest, 1, number) for number in range(times + 1)])
        told[f"one joins, {size}, {how}"] = _timed([_joining(at_rest, number) for number in range(times + 1)])
        told[f"nothing happens, {size}, {how}"] = _timed([_dying(at_rest, 0, 0)] * (times + 1))
        told[f"an idle look, {size}, {how}"] = _timed([look] * (times + 1))
    return told


def many_die(members: int, partitions: int, dying: int, times: int) -> str:
    """The time of a decision after several deaths at once, by load."""
    at_rest = scene(members, partitions, by_load=True)
    return _timed([_dying(at_rest, dying, number) for number in range(times + 1)])


def _dying(at_rest: Scene, dying: int, number: int) -> Callable[[], object]:
    """A decision about the death of some members, each time others."""
    ids = list(at_rest.state.members)
    dead = {ids[(number + each) * 7 % len(ids)] for each in range(dying)}
    live = tuple(id for id in ids if id not in dead)
    commands = [RemoveMember(id, GoneReason.DISCONNECTED) for id in sorted(dead)]
    return lambda: at_rest.decides(live, *commands)


def _joining(at_rest: Scene, number: int) -> Callable[[], object]:
    id = f"{10**9 + number:026d}"
    hello = Hello(id, f"new-{number}", "a", 1.0, 1, (), "10.0.0.2:1")
    unsaid = frozenset({"fencing", "lease_ms", "start", "ownership", "lanes"})
    join = JoinMember(hello, GroupSpec(("logs",)), unsaid)
    live = (*at_rest.state.members, id)
    return lambda: at_rest.decides(live, join)


def _timed(decisions: Sequence[Callable[[], object]]) -> str:
    """Milliseconds of CPU: median and worst, after a first that is not counted."""
    decisions[0]()
    gc.collect()
    took = []
    for decide in decisions[1:]:
        began = time.process_time()
        decide()
        took.append((time.process_time() - began) * 1e3)
    return f"{statistics.median(took):.1f} ms p50, {max(took):.1f} ms max of {len(took)}"
