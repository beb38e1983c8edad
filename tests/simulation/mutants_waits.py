"""Mutants of what drains and deletions wait for: see `mutants`."""

from typing import Final

from braid.runtime.clocks.waits import Waits
from braid.runtime.replica import Replica
from services.assigner.domain.idle_wait import IdleWait
from services.assigner.model.group import Group
from services.assigner.reconciler import idle_groups, term
from services.registry.kafka import drain
from services.registry.model.channels import Channel
from services.registry.model.streams import Stream
from services.registry.model.topics import HOUR_MS
from services.registry.policy import decommission, plan
from services.registry.policy.world import World
from tests.simulation.mutants import Mutant

RESET_FAULTS: Final = ("reset-progress", "reset-progress", "reset-progress", "kill-service")
STEP_FAULTS: Final = ("step-clock", "step-clock", "step-clock", "members-away", "move-stream", "kill-service")
STEPS: Final = {"fault_seconds": 60.0, "fault_interval_seconds": 2.5}


def _sees_no_resets(*arguments: object) -> tuple[str, ...]:
    return ()


def _idle_by_wall_clocks(replica: Replica, state: Group, whole_ms: int) -> IdleWait:
    waited_ms = replica.host.clock.now_ms() - state.idle_since_ms
    return IdleWait(whole_ms, waited_ms, waited_ms)


def _kept_by_wall_clocks(world: World, stream: Stream, channel: Channel) -> int:
    return max(0, channel.state_since_ms + stream.spec.retention_hours * HOUR_MS - world.now_ms)


_NEVER_STOPPED: Final = (Waits, "stopped", property(lambda self: ""))

WAIT_MUTANTS: Final = (
    Mutant(
        "a drain that does not wait for a reset",
        "I11 resets",
        [(drain, "_resets", _sees_no_resets)],
        RESET_FAULTS,
        {"fault_seconds": 30.0, "fault_interval_seconds": 10.0},
        shown_by=1,
    ),
    Mutant(
        "a group is idle by the wall clock",
        "I11 drains",
        [
            (idle_groups, "measured", _idle_by_wall_clocks),
            (term, "IDLE_CHECK_SECONDS", 1.0),
            _NEVER_STOPPED,
        ],
        STEP_FAULTS,
        STEPS,
    ),
    Mutant(
        "a topic is kept by the wall clock",
        "I11 retention",
        [
            (plan, "kept_for_ms", _kept_by_wall_clocks),
            (decommission, "kept_for_ms", _kept_by_wall_clocks),
            _NEVER_STOPPED,
        ],
        STEP_FAULTS,
        STEPS,
    ),
)
