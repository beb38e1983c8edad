"""Operators' actions in a run: rules of the group, each a fault that is healed by undoing it. Checks that rules are
kept."""

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.kernel.errors import BraidError, FailoverBlocked, NotFound, Refused
from braid.rpc.mesh_client import ServiceClient
from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, Folded, StoreRestored
from tests.simulation.applications import GROUP, STREAM
from tests.simulation.world import LANES, MEMBERS, World

_HELD, _REVOKING = 2, 3
_LATE_SECONDS = 3.0


class Operation(NamedTuple):
    """Something asked of a service, which answers with `answer`, and how it is taken back; None where it is not."""

    text: str
    method: str
    asked: Message
    undone: Message | None
    answer: type = group_pb2.Group


async def carry_out(world: World, service: ServiceClient, operation: Operation, over: asyncio.Event) -> None:
    """Asks once, and takes it back when it is over, insisting; a second time for what arrived late."""

    async def ask(request: Message) -> bool:
        """Whether there is nothing left to ask for."""
        try:
            await service.unary(operation.method, request, operation.answer)
        except (NotFound, Refused, FailoverBlocked) as error:
            world.journal.say(f"OPERATOR is refused: {error}")
        except BraidError as error:
            world.journal.say(f"OPERATOR does not know: {error}")
            return False
        return True

    await ask(operation.asked)
    await over.wait()
    for undone in [] if operation.undone is None else [operation.undone] * 2:
        while not await ask(undone):
            await world.host.clock.sleep(0.5)
        await world.host.clock.sleep(_LATE_SECONDS)


class Operator:
    """Somebody who asks for rules, at random."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self._world = world
        self._dice = dice

    def next(self) -> Operation:
        """The next rule to ask for."""
        member = self._dice.choice(MEMBERS)
        match self._dice.choice(("drain", "drain", "pin", "ban", "ban", "freeze", "capacity")):
            case "drain":
                undone = api.DrainMemberRequest(group=GROUP, member=member)
                asked = api.DrainMemberRequest(group=GROUP, member=member, drained=True, absent=True)
                return Operation(f"drain {member}", "DrainMember", asked, undone)
            case "pin":
                return self._pin(member)
            case "ban":
                return self._ban(member)
            case "freeze":
                frozen = api.FreezeGroupRequest(group=GROUP, frozen=True)
                return Operation("freeze", "FreezeGroup", frozen, api.FreezeGroupRequest(group=GROUP))
            case _:
                capacity = self._dice.choice((0.2, 1.0, 8.0))
                more = api.SetCapacityRequest(group=GROUP, member=member, capacity=capacity, absent=True)
                same = api.SetCapacityRequest(group=GROUP, member=member)
                return Operation(f"capacity {member} {capacity}", "SetCapacity", more, same)

    def _pin(self, member: str) -> Operation:
        lease, strict = f"{self._channel()}/{self._dice.randrange(2)}", self._dice.random() < 0.4
        asked = api.PinLeaseRequest(group=GROUP, lease=lease, member=member, strict=strict, absent=True)
        undone = api.PinLeaseRequest(group=GROUP, lease=lease)
        return Operation(f"pin {lease} to {member} {strict}", "PinLease", asked, undone)

    def _ban(self, member: str) -> Operation:
        channel = self._channel()
        path = self._dice.choice((channel, channel.rpartition("/")[0], f"{channel}/{self._dice.randrange(2)}"))
        cluster = self._dice.choice(("", "", "east"))
        path = "" if cluster else path
        asked = api.BanMemberRequest(group=GROUP, member=member, path=path, cluster=cluster, absent=True)
        undone = api.BanMemberRequest(group=GROUP, member=member, path=path, cluster=cluster, lifted=True)
        return Operation(f"ban {member} from {path or cluster}", "BanMember", asked, undone)

    def _channel(self) -> str:
        lane = self._dice.choice([lane for lane in LANES if lane != "dlq"])
        seen = self._world.histories.in_state("active", "draining")
        return self._dice.choice([str(each.id) for each in seen if each.id.lane == lane] or [f"{STREAM}/{lane}/1"])


class KeptRules(Instant):
    """Nobody is granted what it is banned from, drained of, or pinned strictly to another; frozen, nothing moves.

    It reads the states as they are folded, and knows nothing of the service's own rules about rules.
    """

    invariant = "rules are kept"
    heeds = (Folded, StoreRestored)

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, Mapping[str, Any]]] = {}  # by group

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, StoreRestored):
            self._before.clear()
        if not isinstance(fact, Folded) or fact.history.kind != "group":
            return
        sequence, before = self._before.get(fact.history.id, (0, {}))
        if fact.sequence <= sequence:
            return
        state = json.loads(fact.state)
        for lease, (stage, holder, epoch, *rest) in state["leases"].items():
            was = before.get("leases", {}).get(lease, [0, "", 0])
            if stage == _HELD and epoch > was[2]:
                yield from _wrong(state, lease, holder)
            frozen = state["rules"]["freeze"] and before.get("rules", {}).get("freeze")
            if frozen and stage == _REVOKING and was[0] == _HELD and "does not consume" not in rest[2]:
                yield f"{lease} is asked back in a frozen group: {rest[2]}"
        self._before[fact.history.id] = fact.sequence, state


def _wrong(state: Mapping[str, Any], lease: str, holder: str) -> Iterator[str]:
    """The rules that a grant violates."""
    rules = state["rules"]
    names = {name for each in state["members"] if each["id"] == holder for name in (holder, each["client_id"])}
    cluster = next(each["cluster"] for each in state["channels"] if lease.rpartition("/")[0] == each["id"])
    if names & rules["drains"].keys():
        yield f"{lease} is granted to {sorted(names)}, which is drained"
    for ban in rules["bans"]:
        meant = cluster == ban["cluster"] if ban["cluster"] else f"{lease}/".startswith(f"{ban['path']}/")
        if meant and ban["member"] in names:
            yield f"{lease} is granted to {sorted(names)}, which is banned from {ban['path'] or ban['cluster']}"
    pin = rules["pins"].get(lease)
    if pin and pin["strict"] and pin["member"] not in names:
        yield f"{lease} is granted to {sorted(names)}, and pinned to {pin['member']} only"
