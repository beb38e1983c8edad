"""Kind `cluster`: one Kafka cluster as the registry knows it. Pure: commands, events, state, decide, evolve.

What concerns several clusters at once (two names for one Kafka cluster, streams that still use it) is asked by the
shell before the command; health itself is judged in `health.py` and recorded here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braid.kernel.decider import Context
from braid.kernel.errors import AlreadyExists, Invalid, NotFound, Refused
from braid.kernel.ids import check_name, split_epoch
from braid.kernel.limits.health import FLAP_FALLS_MAX
from services.registry.model.belonging import (
    Belonging,
    BelongingCommand,
    BelongingEvent,
    ClusterCompared,
    ClusterMarked,
    ForeignMarkSeen,
    RecordCompared,
    RecordForeignMark,
    RecordMark,
)
from services.registry.model.belonging import decide as decide_belonging
from services.registry.model.belonging import evolve as evolve_belonging
from services.registry.model.cluster_specs import ClusterSpec as ClusterSpec
from services.registry.model.cluster_specs import check_cluster_spec as check_cluster_spec
from services.registry.model.etags import check_etag
from services.registry.model.health import Health as Health
from services.registry.model.health import HealthVerdict as HealthVerdict

_LEFT = (Health.DOWN, Health.SLOW)
_UNDECLARED = ClusterSpec("")
_NOT_LOOKED = Belonging()


@dataclass(frozen=True, slots=True)
class Cluster:
    """State of one cluster's history; `exists` is False before it was registered and after it was deleted.

    Attributes:
        changes: Events so far; the etag.
        kafka_cluster_id: Which Kafka cluster answers there; topics made on another one are gone.
        cordoned: A person keeps new traffic off it.
        decommissioning: Everything on it is to leave.
        discard_drained: Of what leaves, drained topics go at once, not after their streams' retention.
        emptied: Nothing was left on it.
        verdict: Why its health is what it is.
        falls_ms: When its traffic had to leave, the last times.
        usual_append_seconds: Nine of its ten appends take less; 0 where nobody knows.
        belonging: Which mesh it belongs to, and what of it no history knows.
        usual_brokers: Brokers it usually has, by number, those away for now included; empty where nobody knows.
    """

    name: str
    exists: bool = False
    spec: ClusterSpec = _UNDECLARED
    kafka_cluster_id: str = ""
    health: Health = Health.HEALTHY
    health_reason: str = ""
    health_since_ms: int = 0
    cordoned: bool = False
    create_time_ms: int = 0
    changes: int = 0
    decommissioning: bool = False
    decommission_since_ms: int = 0
    decommission_reason: str = ""
    discard_drained: bool = False
    emptied: bool = False
    verdict: HealthVerdict = HealthVerdict.UNTOLD
    falls_ms: tuple[int, ...] = ()
    usual_append_seconds: float = 0.0
    usual_brokers: tuple[int, ...] = ()
    belonging: Belonging = _NOT_LOOKED

    @property
    def etag(self) -> str:
        """Changes with every change."""
        return str(self.changes)

    @property
    def takes_traffic(self) -> bool:
        """Whether new traffic may be sent here."""
        return self.exists and self.health is Health.HEALTHY and not self.refusal

    @property
    def last_resort(self) -> bool:
        """Whether traffic may be sent here that would otherwise be nowhere."""
        return self.exists and self.health in (Health.HALF_DEAD, Health.FLAPPING) and not self.refusal

    @property
    def closed(self) -> str:
        """Why a person lets no new traffic in, for people; '' when it is open."""
        if self.decommissioning:
            return "being decommissioned"
        return "cordoned" if self.cordoned else ""

    @property
    def refusal(self) -> str:
        """Why nothing new may be put here, for people: a person says so, or whose it is; '' when it may."""
        return self.belonging.refusal or self.closed

    @property
    def reachable(self) -> bool:
        """Whether work on it is worth trying."""
        return self.exists and self.health is not Health.DOWN

    @property
    def holds_traffic(self) -> bool:
        """Whether the traffic it carries may stay."""
        return self.exists and self.health not in _LEFT


# --- commands


@dataclass(frozen=True, slots=True)
class RegisterCluster:
    """Adds a cluster the shell has just reached under this Kafka cluster id, with these brokers."""

    spec: ClusterSpec
    kafka_cluster_id: str
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateCluster:
    """Replaces the declaration; an empty etag updates whatever is there."""

    spec: ClusterSpec
    etag: str = ""


@dataclass(frozen=True, slots=True)
class SetHealth:
    """Records what the health judge concluded."""

    health: Health
    reason: str
    verdict: HealthVerdict = HealthVerdict.UNTOLD


@dataclass(frozen=True, slots=True)
class LearnAppendTime:
    """Writes down what is usual here, for the next leader; the shell asks when that is worth an event."""

    usual_seconds: float


@dataclass(frozen=True, slots=True)
class ObserveBrokers:
    """The brokers that the cluster usually has, sorted; `gaps.py` says which these are."""

    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cordon:
    """Takes the cluster out of the choice for new traffic, or back into it."""

    cordoned: bool


@dataclass(frozen=True, slots=True)
class Decommission:
    """Asks everything on the cluster to leave. Told again, it can only discard more."""

    reason: str = ""
    discard_drained: bool = False


@dataclass(frozen=True, slots=True)
class CancelDecommission:
    """Takes it back; what has left stays where it is."""


@dataclass(frozen=True, slots=True)
class RecordEmptied:
    """No channel is left on it; the shell has looked at all streams while no channel could be planned."""


@dataclass(frozen=True, slots=True)
class RepeatDecommission:
    """Whether it is empty is not known any more: the store was restored, and the cluster may hold later channels."""


@dataclass(frozen=True, slots=True)
class ObserveIdentity:
    """The cluster said which Kafka cluster it is."""

    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class DeleteCluster:
    """Forgets the cluster; the shell has checked that nothing uses it."""

    etag: str = ""


ClusterCommand = (
    RegisterCluster
    | UpdateCluster
    | SetHealth
    | LearnAppendTime
    | ObserveBrokers
    | Cordon
    | Decommission
    | CancelDecommission
    | RecordEmptied
    | RepeatDecommission
    | ObserveIdentity
    | DeleteCluster
    | BelongingCommand
)


# --- events


@dataclass(frozen=True, slots=True)
class ClusterRegistered:
    """The cluster exists."""

    spec: ClusterSpec
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ClusterUpdated:
    """Its declaration was replaced."""

    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterHealthChanged:
    """The registry believes something else of it."""

    health: Health
    reason: str
    verdict: HealthVerdict = HealthVerdict.UNTOLD


@dataclass(frozen=True, slots=True)
class AppendTimeLearnt:
    """What its appends usually take."""

    usual_seconds: float


@dataclass(frozen=True, slots=True)
class ClusterBrokersObserved:
    """The brokers it usually has are others; `spec` is the declaration, for releases that know nothing else of this."""

    brokers: tuple[int, ...]
    spec: ClusterSpec


@dataclass(frozen=True, slots=True)
class ClusterCordoned:
    """It takes no new traffic, or takes it again."""

    cordoned: bool


@dataclass(frozen=True, slots=True)
class DecommissionIntended:
    """Intent: everything on it is to leave."""

    reason: str
    discard_drained: bool


@dataclass(frozen=True, slots=True)
class DecommissionCancelled:
    """It may stay, and takes traffic as it did before."""


@dataclass(frozen=True, slots=True)
class ClusterEmptied:
    """Result: nothing is left on it."""


@dataclass(frozen=True, slots=True)
class ClusterIdentityChanged:
    """Behind the same address answers another Kafka cluster: it was replaced, and what was on it is gone."""

    kafka_cluster_id: str
    previous_kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ClusterDeleted:
    """It is forgotten."""


ClusterEvent = (
    ClusterRegistered
    | ClusterUpdated
    | ClusterHealthChanged
    | AppendTimeLearnt
    | ClusterBrokersObserved
    | ClusterCordoned
    | DecommissionIntended
    | DecommissionCancelled
    | ClusterEmptied
    | ClusterIdentityChanged
    | ClusterDeleted
    | BelongingEvent
)


class ClusterDecider:
    """Rules of the kind `cluster`."""

    def initial(self, history: str) -> Cluster:
        """A cluster nobody has registered."""
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
            return replace(state, kafka_cluster_id=event.kafka_cluster_id, usual_append_seconds=0.0, usual_brokers=())
        case ClusterMarked() | ForeignMarkSeen() | ClusterCompared():
            return replace(state, belonging=evolve_belonging(state.belonging, event))
        case ClusterDeleted():
            return Cluster(state.name, changes=state.changes)


def _registered(state: Cluster, event: ClusterRegistered, context: Context) -> Cluster:
    """Nothing on it is older than the store's incarnation in which it was registered."""
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
    fell = event.health in _LEFT and state.health not in _LEFT
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
