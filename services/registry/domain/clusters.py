"""Rules of the kind `cluster`: the events that its commands lead to. Pure.

The shell checks what concerns several clusters (two names for one Kafka cluster, streams that still use it) before it
sends the command. Health is judged in `health`, and only recorded here.
"""

from collections.abc import Sequence
from dataclasses import replace

from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, Invalid, NotFound, Refused
from braid.kernel.ids import check_name, split_epoch
from braid.kernel.limits.registry.health import FLAP_FALLS_MAX
from services.registry.model.belonging import (
    Belonging,
    ClusterCompared,
    ClusterMarked,
    ForeignMarkSeen,
    RecordCompared,
    RecordForeignMark,
    RecordMark,
)
from services.registry.model.belonging import decide as decide_belonging
from services.registry.model.belonging import evolve as evolve_belonging
from services.registry.model.clusters.client_quotas import (
    ClientQuotasIntended,
    ClientQuotasReleased,
    IntendClientQuotas,
    ReleaseClientQuotas,
)
from services.registry.model.clusters.client_quotas import decide as decide_quotas
from services.registry.model.clusters.client_quotas import evolve as evolve_quotas
from services.registry.model.clusters.cluster import LEFT, Cluster
from services.registry.model.clusters.commands import (
    BlockBalance,
    CancelDecommission,
    ClusterCommand,
    Cordon,
    Decommission,
    DeleteCluster,
    LearnAppendTime,
    ObserveBrokers,
    ObserveIdentity,
    RecordEmptied,
    RegisterCluster,
    RepeatDecommission,
    SetHealth,
    UpdateCluster,
)
from services.registry.model.clusters.events import (
    AppendTimeLearnt,
    BalanceBlocked,
    BalanceUnblocked,
    ClusterBrokersObserved,
    ClusterCordoned,
    ClusterDeleted,
    ClusterEmptied,
    ClusterEvent,
    ClusterHealthChanged,
    ClusterIdentityChanged,
    ClusterRegistered,
    ClusterUpdated,
    DecommissionCancelled,
    DecommissionIntended,
)
from services.registry.model.clusters.health import HealthVerdict
from services.registry.model.clusters.specs import check_cluster_spec
from services.registry.model.etags import check_etag


class ClusterDecider:
    """The `Decider` of the kind `cluster`."""

    def initial(self, history: str) -> Cluster:
        """The state before the cluster is registered."""
        return Cluster(history)

    def decide(self, state: Cluster, command: ClusterCommand, context: Context) -> Sequence[ClusterEvent]:
        """See `Decider.decide`."""
        if isinstance(command, RegisterCluster):
            return _register(state, command)
        _require_exists(state)
        match command:
            case UpdateCluster():
                return _update(state, command)
            case SetHealth():
                changed = (command.health, command.verdict) != (state.health, state.verdict)
                return [ClusterHealthChanged(command.health, command.reason, command.verdict)] if changed else []
            case LearnAppendTime():
                known = command.usual_seconds == state.usual_append_seconds
                return [] if known else [AppendTimeLearnt(command.usual_seconds)]
            case ObserveBrokers():
                known = command.brokers == state.usual_brokers
                return [] if known else [ClusterBrokersObserved(command.brokers, state.spec)]
            case Cordon():
                return _cordon(state, command)
            case Decommission() | CancelDecommission() | RecordEmptied() | RepeatDecommission():
                return _decommission(state, command)
            case ObserveIdentity():
                known = command.kafka_cluster_id == state.kafka_cluster_id
                return [] if known else [ClusterIdentityChanged(command.kafka_cluster_id, state.kafka_cluster_id)]
            case RecordMark() | RecordForeignMark() | RecordCompared():
                return decide_belonging(state.belonging, command, state.spec)
            case IntendClientQuotas() | ReleaseClientQuotas():
                return decide_quotas(state.client_quotas, command, state.spec)
            case BlockBalance():
                return _block_balance(state, command)
            case DeleteCluster():
                check_etag(command.etag, state.etag, f"cluster {state.name}")
                if state.decommissioning and not state.emptied:
                    raise Refused(f"cluster {state.name} is not empty yet", field="name", remedy=_look(state.name))
                return [ClusterDeleted()]

    def evolve(self, state: Cluster, event: ClusterEvent, context: Context) -> Cluster:
        """See `Decider.evolve`."""
        return replace(_evolved(state, event, context), changes=state.changes + 1)


def _require_exists(state: Cluster) -> None:
    if not state.exists:
        raise NotFound(f"there is no cluster {state.name}", field="name", remedy="list them: braid get clusters")


def _register(state: Cluster, command: RegisterCluster) -> Sequence[ClusterEvent]:
    check_name(state.name, "name")
    if state.exists:
        raise AlreadyExists(f"cluster {state.name} exists already", field="name")
    spec = check_cluster_spec(command.spec)
    brokers = [ClusterBrokersObserved(command.brokers, spec)] if command.brokers else []
    return [ClusterRegistered(spec, command.kafka_cluster_id), *brokers]


def _update(state: Cluster, command: UpdateCluster) -> Sequence[ClusterEvent]:
    check_etag(command.etag, state.etag, f"cluster {state.name}")
    spec = check_cluster_spec(command.spec)
    if spec.topic_prefix != state.spec.topic_prefix:
        message = "the prefix of a cluster's topics cannot change: topics are never renamed"
        raise Invalid(message, field="spec.topic_prefix", remedy=f"keep {state.spec.topic_prefix!r}")
    return [ClusterUpdated(spec)] if spec != state.spec else []


def _cordon(state: Cluster, command: Cordon) -> Sequence[ClusterEvent]:
    if state.decommissioning and not command.cordoned:
        remedy = f"take that back: braid decommission cluster {state.name} --cancel"
        raise Refused(f"cluster {state.name} is being decommissioned", field="cordoned", remedy=remedy)
    return [ClusterCordoned(command.cordoned)] if command.cordoned != state.cordoned else []


def _decommission(
    state: Cluster, command: Decommission | CancelDecommission | RecordEmptied | RepeatDecommission
) -> Sequence[ClusterEvent]:
    match command:
        case Decommission():
            known = state.decommissioning and (state.discard_drained or not command.discard_drained)
            return [] if known else [DecommissionIntended(command.reason, command.discard_drained)]
        case CancelDecommission():
            return [DecommissionCancelled()] if state.decommissioning else []
        case RecordEmptied():
            return [ClusterEmptied()] if state.decommissioning and not state.emptied else []
        case RepeatDecommission():
            intended = DecommissionIntended(state.decommission_reason, state.discard_drained)
            return [intended] if state.emptied else []


def _block_balance(state: Cluster, command: BlockBalance) -> Sequence[ClusterEvent]:
    if command.reason == state.balance_blocked:
        return []
    return [BalanceBlocked(command.reason, state.spec) if command.reason else BalanceUnblocked(state.spec)]


def _look(name: str) -> str:
    return f"see what is left: braid describe cluster {name}"


def _evolved(state: Cluster, event: ClusterEvent, context: Context) -> Cluster:
    now_ms = context.now_ms
    match event:
        case ClusterRegistered():
            return _registered(state, event, context)
        case ClusterUpdated():
            return replace(state, spec=event.spec)
        case ClusterHealthChanged():
            return _health_changed(state, event, now_ms)
        case AppendTimeLearnt():
            return replace(state, usual_append_seconds=event.usual_seconds)
        case ClusterBrokersObserved():
            return replace(state, usual_brokers=event.brokers)
        case ClusterCordoned():
            return replace(state, cordoned=event.cordoned)
        case DecommissionIntended() | DecommissionCancelled() | ClusterEmptied():
            return _decommission_evolved(state, event, now_ms)
        case ClusterIdentityChanged():
            fresh = replace(state, kafka_cluster_id=event.kafka_cluster_id, usual_append_seconds=0.0, usual_brokers=())
            return replace(fresh, client_quotas=())
        case ClusterMarked() | ForeignMarkSeen() | ClusterCompared():
            return replace(state, belonging=evolve_belonging(state.belonging, event))
        case ClientQuotasIntended() | ClientQuotasReleased():
            return replace(state, client_quotas=evolve_quotas(state.client_quotas, event))
        case BalanceBlocked() | BalanceUnblocked():
            return replace(state, balance_blocked=event.reason if isinstance(event, BalanceBlocked) else "")
        case ClusterDeleted():
            return Cluster(state.name, changes=state.changes)


def _registered(state: Cluster, event: ClusterRegistered, context: Context) -> Cluster:
    """The state after registration. Topics and groups count as compared in the present store incarnation: nothing on
    the cluster is older."""
    incarnation, _ = split_epoch(context.leader_epoch)
    return Cluster(
        state.name,
        exists=True,
        spec=event.spec,
        kafka_cluster_id=event.kafka_cluster_id,
        health_since_ms=context.now_ms,
        create_time_ms=context.now_ms,
        changes=state.changes,
        verdict=HealthVerdict.WELL,
        belonging=Belonging(incarnation=incarnation),
    )


def _health_changed(state: Cluster, event: ClusterHealthChanged, now_ms: int) -> Cluster:
    fell = event.health in LEFT and state.health not in LEFT
    return replace(
        state,
        health=event.health,
        health_reason=event.reason,
        health_since_ms=state.health_since_ms if event.health is state.health else now_ms,
        verdict=event.verdict,
        falls_ms=(*state.falls_ms, now_ms)[-FLAP_FALLS_MAX:] if fell else state.falls_ms,
    )


def _decommission_evolved(
    state: Cluster, event: DecommissionIntended | DecommissionCancelled | ClusterEmptied, now_ms: int
) -> Cluster:
    match event:
        case DecommissionIntended():
            since_ms = state.decommission_since_ms if state.decommissioning else now_ms
            return replace(
                state,
                decommissioning=True,
                decommission_since_ms=since_ms,
                decommission_reason=event.reason or state.decommission_reason,
                discard_drained=event.discard_drained,
                emptied=False,
            )
        case DecommissionCancelled():
            taken_back = replace(state, decommissioning=False, decommission_since_ms=0, decommission_reason="")
            return replace(taken_back, discard_drained=False, emptied=False)
        case ClusterEmptied():
            return replace(state, emptied=True)
