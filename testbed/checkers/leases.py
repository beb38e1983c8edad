"""Leases as the assigner's histories grant them and as members hold them: I4 one holder, I6 no grant without its
event, I14 nothing moves without a reason, nor to and fro.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from testbed.checkers.checking import Instant
from testbed.checkers.facts import (
    CutOff,
    Fact,
    Killed,
    LeaseDropped,
    LeaseFreed,
    LeaseGranted,
    LeaseTold,
    Paused,
    Steady,
    StoreBackedUp,
    StoreRestored,
)

_Lease = tuple[str, str]  # group, lease
_GRANTS_MAX: Final = 12  # of one lease, however often members are killed meanwhile
_RESTLESS_MS: Final = 5_000


class OneGrant(Instant):
    """I4: according to its history, no lease is granted while another member holds it: no partition has two epochs."""

    invariant = "I4 one grant"

    def __init__(self) -> None:
        self._granted: dict[_Lease, LeaseGranted] = {}
        self._backup: dict[_Lease, LeaseGranted] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case StoreBackedUp():
                self._backup = dict(self._granted)
            case StoreRestored():
                self._granted = dict(self._backup)
            case LeaseGranted(group=group, lease=lease):
                if (other := self._granted.get((group, lease))) is not None:
                    yield f"{fact} while {other} stands"
                self._granted[group, lease] = fact
            case LeaseFreed(group=group, lease=lease, epoch=epoch):
                other = self._granted.get((group, lease))
                if other is not None and other.epoch == epoch:
                    del self._granted[group, lease]
            case _:
                pass


@dataclass
class _Hold:
    told: LeaseTold
    excused: bool = False  # its process is frozen or reaches no assigner: it cannot know better


class OneHolder(Instant):
    """I4: no two members hold a lease at once, except members that were frozen or cut off when it was theirs."""

    invariant = "I4 one holder"

    def __init__(self) -> None:
        self._holds: dict[_Lease, dict[str, _Hold]] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case LeaseTold():
                yield from self._told(fact)
            case LeaseDropped(process=process, group=group, lease=lease, epoch=epoch):
                holds = self._holds.get((group, lease), {})
                if process in holds and holds[process].told.epoch == epoch:
                    del holds[process]
            case Killed(process=process):
                for holds in self._holds.values():
                    holds.pop(process, None)
            case Paused(process=process) | CutOff(process=process):
                for holds in self._holds.values():
                    if process in holds:
                        holds[process].excused = True
            case _:
                pass

    def _told(self, told: LeaseTold) -> Iterator[str]:
        holds = self._holds.setdefault((told.group, told.lease), {})
        for process, other in holds.items():
            if process != told.process and not other.excused:
                yield f"{told} while {other.told}"
            if process != told.process and told.epoch <= other.told.epoch:
                yield f"{told} does not rise above {other.told}"
        holds[told.process] = _Hold(told)


class RecordedGrants(Instant):
    """I6: no member is sent a lease before the history grants it to that member under that epoch."""

    invariant = "I6 recorded grants"

    def __init__(self) -> None:
        self._granted: set[tuple[str, str, str, int]] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case LeaseGranted(group=group, lease=lease, member=member, epoch=epoch):
                self._granted.add((group, lease, member, epoch))
            case LeaseTold(group=group, lease=lease, member=member, epoch=epoch):
                if (group, lease, member, epoch) not in self._granted:
                    yield f"{fact}, and its history does not say so"
            case _:
                pass


class NothingMoves(Instant):
    """I14: while a group is steady (its members had no fault), none of its leases is granted, freed or dropped."""

    invariant = "I14 nothing moves"

    def __init__(self) -> None:
        self._steady: set[str] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Steady(group=group, steady=steady):
                (self._steady.add if steady else self._steady.discard)(group)
            case LeaseGranted(group=group) | LeaseFreed(group=group) | LeaseDropped(group=group):
                if group in self._steady:
                    yield f"{fact} though nothing befell a member"
            case _:
                pass


class Restful(Instant):
    """I14: no lease moves from member to member again and again, whatever happens to a group.

    A restart, a join or a leader change moves a lease once or twice. Contradictory decisions move it as often as
    members answer.

    Grants have the wall-clock time of the deciding leader. If that clock stepped, or the next leader's differs, at
    least the facts between two grants count as time passed: no step makes a slow lease look restless.
    """

    invariant = "I14 rest"
    heeds = (LeaseGranted,)

    def __init__(self) -> None:
        self._grants: dict[_Lease, deque[int]] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, LeaseGranted):
            grants = self._grants.setdefault((fact.group, fact.lease), deque(maxlen=_GRANTS_MAX + 1))
            grants.append(fact.at_ms)
            passed_ms = sum(abs(later - earlier) for earlier, later in pairwise(grants))
            if len(grants) > _GRANTS_MAX and passed_ms < _RESTLESS_MS:
                yield f"{fact}: the {_GRANTS_MAX + 1}th time within {passed_ms / 1000:g} s"
                grants.clear()  # once is enough to say


LEASES: Final = (OneGrant, OneHolder, RecordedGrants, NothingMoves)
