"""All faults of a chaos run by name, and how long work may stand still in each; `plan.py` says which are played."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.e2e.chaos import (
    broker_faults,
    clock_faults,
    faults,
    full_disks,
    losing,
    network,
    operating,
    pairs,
    restoring,
    scaling,
    store_faults,
    strangers,
)
from tests.e2e.chaos.faults import Fault


class Kind(NamedTuple):
    """A fault, and what it may cost while it lasts (I13).

    Attributes:
        play: Does it and heals it.
        sends_seconds: A producer that was left alone may be without an acknowledgement for so long, in each lane.
        works_seconds: A partition whose cluster runs may have work and none of it settled for so long.
    """

    play: Fault
    sends_seconds: float
    works_seconds: float


# Twice what is aimed at, and room for a machine that others use as well.
_UNTOUCHED: Final = 5.0  # nothing that carries this work was hit
_MOVED: Final = 5.0  # producers change over in order; members are granted the new channel's partitions
_FAILED_OVER: Final = 10.0  # found out, decided, told; and the same for its members
_LEASE_OVER: Final = 8.0  # a lease of 2 s runs out, then it is granted anew
_NOT_GRANTED: Final = 15.0  # leases may run out while nobody grants any, until an assigner is back and leads
_RESTORED: Final = 40.0  # services stop, their sessions end, the store is put back, and groups are fenced anew
_QUORUM_GONE: Final = store_faults.QUORUM_LOST_SECONDS + 20.0
_RETURNED: Final = 20.0  # a broker accepts members again once its former session is over; then they restore

FAULTS: Final[Mapping[str, Kind]] = {
    "kill member": Kind(faults.kill_member, _UNTOUCHED, _UNTOUCHED),
    "freeze member for half a lease": Kind(faults.pause_member(0.5), _UNTOUCHED, _UNTOUCHED),
    "freeze member for 1.5 leases": Kind(faults.pause_member(1.5), _UNTOUCHED, _LEASE_OVER),
    "freeze member for 3 leases": Kind(faults.pause_member(3.0), _UNTOUCHED, _LEASE_OVER),
    "kill producer": Kind(faults.kill_producer, _UNTOUCHED, _UNTOUCHED),
    "freeze producer": Kind(faults.pause_producer, _UNTOUCHED, _UNTOUCHED),
    "kill registry leader": Kind(faults.kill_leader("registry"), _UNTOUCHED, _UNTOUCHED),
    "kill assigner leader": Kind(faults.kill_leader("assigner"), _UNTOUCHED, _NOT_GRANTED),
    "freeze registry leader": Kind(faults.pause_leader("registry"), _UNTOUCHED, _UNTOUCHED),
    "freeze assigner leader": Kind(faults.pause_leader("assigner"), _UNTOUCHED, _NOT_GRANTED),
    "kill all registries": Kind(faults.kill_all("registry"), _UNTOUCHED, _UNTOUCHED),
    "kill all assigners": Kind(faults.kill_all("assigner"), _UNTOUCHED, _NOT_GRANTED),
    "kill cluster": Kind(faults.kill_cluster, _FAILED_OVER, _RETURNED),
    "freeze cluster": Kind(faults.pause_cluster, _FAILED_OVER, _RETURNED),
    "move": Kind(faults.move, _MOVED, _MOVED),
    "move without leader": Kind(faults.move_without_leader, _MOVED, _MOVED),
    "move to a dying cluster": Kind(pairs.move_to_the_dying, _FAILED_OVER, _RETURNED),
    "grow": Kind(operating.grow, _MOVED, _MOVED),
    "shrink": Kind(operating.shrink, _MOVED, _MOVED),
    "spread": Kind(operating.spread, _MOVED, _MOVED),
    "decommission": Kind(operating.decommission, _MOVED, _MOVED),
    "decommissioned cluster dies": Kind(pairs.emptied_dies, _FAILED_OVER, _RETURNED),
    "cluster returns empty": Kind(losing.return_empty, _FAILED_OVER, _RETURNED),
    "cluster returns cut short": Kind(losing.return_cut, _FAILED_OVER, _RETURNED),
    "cluster returns cut short amid a repartition": Kind(losing.return_cut_amid_repartition, _FAILED_OVER, _RETURNED),
    "kill leading broker": Kind(broker_faults.kill_broker(broker_faults.leader_of_lane), _FAILED_OVER, _RETURNED),
    "kill coordinating broker": Kind(
        broker_faults.kill_broker(broker_faults.coordinator_of_group), _FAILED_OVER, _RETURNED
    ),
    "kill controlling broker": Kind(
        broker_faults.kill_broker(broker_faults.active_controller), _FAILED_OVER, _RETURNED
    ),
    "freeze broker": Kind(broker_faults.freeze_broker, _FAILED_OVER, _RETURNED),
    "lose two of three brokers": Kind(broker_faults.lose_most_brokers, _FAILED_OVER, _RETURNED),
    "roll cluster": Kind(broker_faults.roll, _MOVED, _MOVED),
    "reassign replicas": Kind(broker_faults.reassign, _MOVED, _MOVED),
    "disk of one broker full": Kind(full_disks.of_one_broker, _FAILED_OVER, _RETURNED),
    "members 1 to 8 to 1": Kind(scaling.one_to_eight_to_one, _UNTOUCHED, _LEASE_OVER),
    "another mesh on the cluster": Kind(strangers.another_mesh, _UNTOUCHED, _UNTOUCHED),
    "another mesh takes a cluster over": Kind(strangers.takes_over, _UNTOUCHED, _UNTOUCHED),
    "cut member off": Kind(network.cut_member(network.BOTH), _UNTOUCHED, _LEASE_OVER),
    "cut what member says": Kind(network.cut_member(network.SAYS), _UNTOUCHED, _LEASE_OVER),
    "cut what member hears": Kind(network.cut_member(network.HEARS), _UNTOUCHED, _LEASE_OVER),
    "cut producer off": Kind(network.cut_producer, _UNTOUCHED, _UNTOUCHED),
    "clock of a replica steps": Kind(clock_faults.step_one, _UNTOUCHED, _NOT_GRANTED),
    "clocks of a service step": Kind(clock_faults.step_all, _UNTOUCHED, _NOT_GRANTED),
    "restore the store": Kind(restoring.restore, _MOVED, _RESTORED),
    "kill etcd leader": Kind(store_faults.kill_leader, _UNTOUCHED, _NOT_GRANTED),
    "lose etcd quorum": Kind(store_faults.lose_quorum, _UNTOUCHED, _NOT_GRANTED),
    "lose etcd quorum for long": Kind(store_faults.lose_quorum_for_long, _UNTOUCHED, _QUORUM_GONE),
    "store's disk full": Kind(full_disks.of_store, _UNTOUCHED, _NOT_GRANTED),
    "index's disk full": Kind(full_disks.of_index, _UNTOUCHED, _UNTOUCHED),
    "broker's disk full": Kind(full_disks.of_broker, _FAILED_OVER, _RETURNED),
}
