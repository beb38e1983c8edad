"""Plans in which clusters return without acknowledged records: `python -m tests.simulation --plan losing`."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.plan import FEW_UNITS, Plan

FAULTS: Final = (
    *("lose-cluster",) * 5,
    *("reassign-replicas",) * 2,
    *("kill-member", "pause-member", "fade-member", "move-stream"),
    *("kill-service", "cut-store", "lose-answers", "slow-appends"),
)
CUTS: Final = (*("shorten-logs",) * 6, *FAULTS[4:])
REASSIGNMENTS: Final = (*("reassign-replicas",) * 10, *FAULTS[7:])


def losing(seed: int, faults: tuple[str, ...] = FAULTS) -> Plan:
    """A run in which both clusters may lose something; their producers live on and tell their receipts."""
    return Plan(
        seed,
        60.0,
        settle_seconds=120.0,
        exclusive=random.Random(f"losing/{seed}").random() < 0.4,
        faults=faults,
        cluster_deaths_max=5 if faults is CUTS else 2,  # what is cut short soon returns, and few leave it
        send_interval_seconds=0.05,
        handling_seconds=0.4,
    )


def gaps(seed: int) -> Plan:
    """Logs are cut within half a minute, where retried records leave gaps at all times, so that most commits spill."""
    return replace(
        losing(seed, CUTS),
        metadata_units=FEW_UNITS,
        fault_seconds=25.0,
        fault_interval_seconds=1.5,
        poison_percent=15,
        backoff_seconds=(1.0, 4.0),
        faults=(*("shorten-logs",) * 4, "kill-member"),
    )


def everything(seed: int) -> Plan:
    """Members leave besides. Of the runs every other one cuts logs instead of taking disks, the second pair of four
    lets commits spill, and the second four of eight restore the store from a backup.
    """
    planned = losing(seed, CUTS if seed % 2 else FAULTS)
    units = FEW_UNITS if seed % 4 > 1 else 0
    restores = ("restore-store",) * 3 if seed % 8 > 3 else ()
    return replace(planned, faults=(*planned.faults, *("leave-group",) * 2, *restores), metadata_units=units)


def dying(seed: int) -> Plan:
    """Producers die as well, and registries that heard of them: nobody may know then how far a lost log went.

    Logs are lost as a whole: of one that is cut short below all that anybody alive knows, nobody can tell.
    """
    faults = (*("lose-cluster",) * 3, *("kill-producer",) * 3, *("kill-service",) * 3, "move-stream")
    return replace(losing(seed), faults=faults, fault_interval_seconds=1.5, losses=("empties", "replaces"))


PLANS: Final[Mapping[str, Callable[[int], Plan]]] = {"losing": everything, "gaps": gaps, "dying": dying}
