"""Evens out load between clusters while leading: samples loads, asks `policy/balancing` what to do, and carries it out.

It keeps no state that must survive: proposals, blocks and made moves are events, the rest is measured again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.balancing import (
    BALANCE_COOL_DOWN_SECONDS,
    BALANCE_INTENT_SECONDS,
    BALANCE_LOOK_SECONDS,
)
from braid.kernel.limits.registry.traffic import LOAD_LOOK_SECONDS
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.model.clusters.commands import BlockBalance
from services.registry.model.rebalances import BalanceRules
from services.registry.model.stream_commands import PlanChannel, ProposeRebalance, StreamCommand, WithdrawRebalance
from services.registry.model.streams import Stream
from services.registry.policy.balancing.advance import advance
from services.registry.policy.balancing.memory import BalanceMemory, Intent
from services.registry.policy.balancing.steps import Action, Block, Propose, StartMove, Withdraw, decide
from services.registry.policy.world import World
from services.registry.reconciler.gauges import Gauges

_CAUSE = "balance"


class Balancer:
    """The balancing of one term.

    Attributes:
        memory: What was seen of loads in this term.
        rules: The mesh's settings.
    """

    def __init__(
        self,
        replica: Replica,
        rules: BalanceRules,
        world: Callable[[], World],
        placing: asyncio.Lock,
        gauges: Gauges,
    ) -> None:
        """Prepares a term. `placing` is held from reading clusters to the append that depends on it."""
        self.memory = BalanceMemory()
        self.rules = rules
        self._replica = replica
        self._world = world
        self._placing = placing
        self._gauges = gauges
        self._moves: dict[str, StartMove] = {}
        self._sampled = -LOAD_LOOK_SECONDS

    async def run(self) -> None:
        """Looks at loads until cancelled."""
        clock = self._replica.host.clock
        try:
            while True:
                await self._look(clock.elapsed())
                await clock.sleep(BALANCE_LOOK_SECONDS)
        finally:
            self._gauges.show_balance({}, (), {})

    async def _look(self, now: float) -> None:
        world = self._world()
        if now - self._sampled >= LOAD_LOOK_SECONDS and world.loads:
            self._sampled = now
            self.memory.sample(world, now)
            for action in decide(world, self.memory, self.rules, now):
                await self._try(action, now)
            self._show(world)
        for stream, move in [*self._moves.items()]:
            await self._advance(stream, move, now)
        self.memory.resting = {name: until for name, until in self.memory.resting.items() if now < until}

    async def _try(self, action: Action, now: float) -> None:
        """Carries out one action. One that an older world led to may be refused: the next look decides anew."""
        try:
            await self._act(action, now)
        except BraidError as error:
            self._replica.log.warning("not recorded", action=repr(action), error=str(error))

    async def _act(self, action: Action, now: float) -> None:
        match action:
            case StartMove():
                self._moves[action.stream] = action
                self.memory.intents[action.stream] = Intent(action.rebalance.to_cluster, now + BALANCE_INTENT_SECONDS)
            case Propose():
                made = action.rebalance
                command = ProposeRebalance(made.from_cluster, made.to_cluster, made.reason)
                await self._record(action.stream, command, f"cluster/{made.from_cluster} load")
            case Withdraw():
                await self._record(action.stream, WithdrawRebalance(action.reason), _CAUSE)
            case Block():
                await self._block(action)

    async def _advance(self, name: str, move: StartMove, now: float) -> None:
        """Carries a move one step further; one that takes too long is given up, and its stream left alone."""
        stream: Stream = self._replica.aggregates.state(STREAMS, name)
        try:
            done = not stream.exists or not await self._step(name, stream, move)
        except BraidError as error:
            self._replica.log.warning("not moved", stream=name, error=str(error))
            done = self._rest(name, now)
        if not done and now >= self.memory.intents[name].until:
            done = self._rest(name, now)
        if done:
            del self._moves[name]
            del self.memory.intents[name]

    def _rest(self, name: str, now: float) -> bool:
        self.memory.resting[name] = now + BALANCE_COOL_DOWN_SECONDS
        return True

    async def _step(self, name: str, stream: Stream, move: StartMove) -> bool:
        """Takes the next step; returns whether there was one."""
        async with self._placing:
            commands = advance(self._world(), stream, move)
            for command in commands:
                part = command if isinstance(command, PlanChannel) else None
                if part is None or self._world().cluster(part.cluster).takes_traffic:
                    await self._record(name, command, f"cluster/{move.rebalance.from_cluster} load")
        return bool(commands)

    async def _record(self, stream: str, command: StreamCommand, cause: str) -> None:
        outcome = await self._replica.aggregates.execute(
            STREAMS, stream, command, actor=self._replica.instance, cause=cause
        )
        for record in outcome.events:
            self._replica.log.info("stream", stream=stream, change=repr(record.event), cause=cause)

    async def _block(self, action: Block) -> None:
        await self._replica.aggregates.execute(
            CLUSTERS, action.cluster, BlockBalance(action.reason), actor=self._replica.instance, cause=_CAUSE
        )
        self._replica.log.info("cluster", cluster=action.cluster, change=action.reason or "balance unblocked")

    def _show(self, world: World) -> None:
        """Shows proposals, blocked clusters and forecasts of disks as gauges."""
        proposals = Counter(
            stream.rebalance.from_cluster for stream in world.streams.values() if stream.exists and stream.rebalance
        )
        full: Mapping[str, float] = {
            name: found.seconds for name in world.loads if (found := self.memory.forecast(world, name)) is not None
        }
        blocked = [name for name, cluster in world.clusters.items() if cluster.exists and cluster.balance_blocked]
        self._gauges.show_balance(proposals, blocked, full)
