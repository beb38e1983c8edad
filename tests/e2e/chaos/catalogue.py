"""All faults of a chaos run by name; `plan.py` says which are played."""

from collections.abc import Mapping
from typing import Final

from tests.e2e.chaos import faults, losing, operating
from tests.e2e.chaos.faults import Fault

FAULTS: Final[Mapping[str, Fault]] = {
    "kill member": faults.kill_member,
    "freeze member for half a lease": faults.pause_member(0.5),
    "freeze member for 1.5 leases": faults.pause_member(1.5),
    "freeze member for 3 leases": faults.pause_member(3.0),
    "kill producer": faults.kill_producer,
    "freeze producer": faults.pause_producer,
    "kill registry leader": faults.kill_leader("registry"),
    "kill assigner leader": faults.kill_leader("assigner"),
    "freeze registry leader": faults.pause_leader("registry"),
    "freeze assigner leader": faults.pause_leader("assigner"),
    "kill all registries": faults.kill_all("registry"),
    "kill all assigners": faults.kill_all("assigner"),
    "kill cluster": faults.kill_cluster,
    "freeze cluster": faults.pause_cluster,
    "move": faults.move,
    "move without leader": faults.move_without_leader,
    "grow": operating.grow,
    "shrink": operating.shrink,
    "spread": operating.spread,
    "decommission": operating.decommission,
    "cluster returns empty": losing.return_empty,
    "cluster returns cut short": losing.return_cut,
}
