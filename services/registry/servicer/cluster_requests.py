"""Handlers of RPCs on clusters. A cluster is asked before it is recorded."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.access.roles import Resource, ResourceKind
from braid.kernel.errors import (
    AlreadyExists,
    ClusterAccessDenied,
    ClusterAutoCreatesTopics,
    ClusterUnavailable,
    Conflict,
    Invalid,
    Refused,
)
from braid.kernel.ids import check_name
from braid.kernel.ports import Caller, ClusterDescription, KafkaAdmin
from braid.runtime.access.approvals import Destruction
from services.registry.codec.specs import read_cluster_spec
from services.registry.codec.views import cluster_message, departure_message
from services.registry.histories import CLUSTERS
from services.registry.kafka.canary_looks import prepare_canary
from services.registry.model.belonging import RecordMark
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import (
    CancelDecommission,
    Cordon,
    Decommission,
    DeleteCluster,
    RegisterCluster,
    UpdateCluster,
)
from services.registry.model.clusters.specs import (
    ClusterSpec,
    check_cluster_spec,
)
from services.registry.model.etags import check_etag
from services.registry.ownership.adoption import adopt, give_up
from services.registry.ownership.identity import require_mark, require_same_log
from services.registry.ownership.mark_log import MarkLogs
from services.registry.policy.decommission import departures, left_on
from services.registry.policy.world import World
from services.registry.servicer.request_context import RequestContext, page_of
from services.registry.term import Term

_ACCESS: Final = (
    "it runs, and takes other credentials: look at the registry's security profile (name, password, mechanism, "
    "certificates) and at the permissions of its principal"
)


class ClusterRequests:
    """Handlers of RPCs on clusters in one replica."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    async def get(self, request: api.GetClusterRequest, caller: Caller) -> cluster_pb2.Cluster:
        """One cluster, as this replica knows it; the leader adds the evidence on its health."""
        return self._told(self._context.cluster(request.name), self._context.world())

    async def list(self, request: api.ListClustersRequest, caller: Caller) -> api.ListClustersResponse:
        """Clusters, sorted by name; the leader adds the evidence on their health."""
        world = self._context.world()
        existing = [(name, cluster) for name, cluster in world.clusters.items() if cluster.exists]
        page, token = page_of(existing, request.page_size, request.page_token)
        messages = [self._told(cluster, world) for cluster in page]
        return api.ListClustersResponse(clusters=messages, next_page_token=token)

    def _told(self, cluster: Cluster, world: World) -> cluster_pb2.Cluster:
        leading = self._context.leading()
        observed = leading.prober.observed(cluster.name) if leading is not None else None
        evidence = observed.snapshot if observed is not None else None
        unmeasured = leading.measurer.problems.get(cluster.name, "") if leading is not None else ""
        return cluster_message(cluster, world, evidence, unmeasured)

    async def create(self, request: api.CreateClusterRequest, caller: Caller) -> cluster_pb2.Cluster:
        """Registers a cluster that answers, once its Kafka cluster id is known.

        Raises:
            Invalid: its security profile may not be used for these addresses; no credentials were sent.
            ClusterUnavailable: it does not answer; the field is `spec.bootstrap`.
            ClusterAutoCreatesTopics: deleted topics could be created again there.
            Refused: it belongs to another mesh.
            AlreadyExists: the name or the Kafka cluster is registered already.
        """
        term = self._context.term()
        check_name(request.name, "name")
        spec = check_cluster_spec(read_cluster_spec(request.spec))
        known = self._context.replica.aggregates.state(CLUSTERS, request.name)
        if known.exists and request.take_over and known.spec == spec:
            return await self._take_over(term, known, request, caller)
        if known.exists and (request.dry_run or not caller.request_id or known.spec != spec):
            raise AlreadyExists(f"cluster {request.name} exists already", field="name")
        warnings = term.access.check_profile(spec)
        found = await self._examine(term, request, spec)
        command = RegisterCluster(spec, found.cluster_id, tuple(sorted(found.brokers)))
        if request.dry_run:
            return self._message(self._context.preview(CLUSTERS, request.name, command, caller), warnings)
        made = await self._context.execute(CLUSTERS, request.name, command, caller)
        return self._message(await self._listed(term, made) if request.take_over else made, warnings)

    async def _listed(self, term: Term, cluster: Cluster) -> Cluster:
        """A cluster that was taken over, with the topics and groups of the former mesh."""
        await term.restoration.attempt(cluster, taken_over=True)
        return self._context.cluster(cluster.name)

    async def update(self, request: api.UpdateClusterRequest, caller: Caller) -> cluster_pb2.Cluster:
        """Replaces a declaration; a new address must be proved to lead to the same Kafka cluster.

        Raises:
            Invalid: its security profile may not be used for the new address; no credentials were sent.
            Refused: another Kafka cluster answers there, or one that does not prove to be the registered one.
        """
        term = self._context.term()
        warnings: Sequence[str] = ()
        known = self._context.cluster(request.name)
        spec = check_cluster_spec(read_cluster_spec(request.spec))
        if (spec.bootstrap, spec.security_profile) != (known.spec.bootstrap, known.spec.security_profile):
            warnings = term.access.check_profile(spec)
            async with self._asked(term, request.name, spec) as (admin, found):
                self._check_examined(request.name, spec, found)
                _check_id(known, found)
                if spec.bootstrap != known.spec.bootstrap:
                    await self._prove(term, known, spec, admin, dry_run=request.dry_run)
        command = UpdateCluster(spec, request.etag)
        if request.dry_run:
            return self._message(self._context.preview(CLUSTERS, request.name, command, caller), warnings)
        return self._message(await self._context.execute(CLUSTERS, request.name, command, caller), warnings)

    async def delete(self, request: api.DeleteClusterRequest, caller: Caller) -> cluster_pb2.Cluster:
        """Deletes a cluster that nothing uses, and returns what it was.

        Raises:
            Refused: channels on it are not retired, or a stream names it that nobody asked to leave.
        """
        term = self._context.term()
        async with term.placing:
            known = self._context.cluster(request.name)
            check_etag(request.etag, known.etag, f"cluster {request.name}")
            self._check_unused(known)
            message_before = self._message(known)
            await self._context.execute(CLUSTERS, request.name, DeleteCluster(request.etag), caller)
            await give_up(term.marks, term.access.admin(known), known.spec.topic_prefix)
        return message_before

    def _check_unused(self, cluster: Cluster) -> None:
        if left := left_on(self._context.world(), cluster.name):
            channel = left[0].channel
            more = f", and {len(left) - 1} more" if len(left) > 1 else ""
            message = f"channel {left[0].name} ({channel.state.name}) is still on cluster {cluster.name}{more}"
            empty = f"see what is left: braid describe cluster {cluster.name}"
            remedy = empty if cluster.decommissioning else f"empty it: braid decommission cluster {cluster.name}"
            raise Refused(message, field="name", remedy=remedy)
        if cluster.decommissioning:  # a name in a declaration is leave to use it, and that was taken back
            return
        for stream in self._context.world().streams.values():
            if stream.exists and cluster.name in stream.spec.clusters:
                message = f"stream {stream.name} names cluster {cluster.name}"
                remedy = f"take it out of the stream's clusters, or: braid decommission cluster {cluster.name}"
                raise Refused(message, field="name", remedy=remedy)

    async def cordon(self, request: api.CordonClusterRequest, caller: Caller) -> cluster_pb2.Cluster:
        """Excludes a cluster from new traffic, or ends that."""
        self._context.term()
        self._context.cluster(request.name)
        return self._message(await self._context.execute(CLUSTERS, request.name, Cordon(request.cordoned), caller))

    async def decommission(
        self, request: api.DecommissionClusterRequest, caller: Caller
    ) -> api.DecommissionClusterResponse:
        """Begins to empty a cluster, or cancels that; the reconciler moves a few streams at a time."""
        self._context.term()
        known = self._context.cluster(request.name)
        command = CancelDecommission() if request.cancelled else Decommission(request.reason, request.discard_drained)
        cluster = self._context.preview(CLUSTERS, request.name, command, caller)
        if not request.dry_run:
            if not request.cancelled and cluster != known:
                await self._require_approval(known, request, caller)
            cluster = await self._context.execute(CLUSTERS, request.name, command, caller)
        world = self._context.world()
        world = replace(world, clusters={**world.clusters, request.name: cluster})
        leaving = departures(world, cluster) if cluster.decommissioning else ()
        return api.DecommissionClusterResponse(
            cluster=cluster_message(cluster, world), departures=[departure_message(each) for each in leaving]
        )

    async def _require_approval(
        self, cluster: Cluster, request: api.DecommissionClusterRequest, caller: Caller
    ) -> None:
        verbs = (GuardedVerb.DECOMMISSION_CLUSTER, *((GuardedVerb.DISCARD_DRAINED,) * request.discard_drained))
        identity = f"{cluster.create_time_ms} {cluster.kafka_cluster_id}"
        destruction = Destruction(verbs, (Resource(ResourceKind.CLUSTER, cluster.name),), identity)
        await self._context.replica.approvals.require("DecommissionCluster", request, destruction, caller)
        now = self._context.cluster(cluster.name)
        if (now.create_time_ms, now.kafka_cluster_id) != (cluster.create_time_ms, cluster.kafka_cluster_id):
            raise Conflict(f"cluster {cluster.name} was registered anew", field="name", remedy="look again")

    async def _take_over(
        self, term: Term, cluster: Cluster, request: api.CreateClusterRequest, caller: Caller
    ) -> cluster_pb2.Cluster:
        """Marks a registered cluster as this mesh's again, after another mesh marked it."""
        admin, reader, prefix = term.access.admin(cluster), term.access.reader(cluster.spec), cluster.spec.topic_prefix
        await adopt(term.marks, admin, reader, cluster.name, prefix, request.take_over, dry_run=request.dry_run)
        if request.dry_run:
            return self._message(cluster)
        marked = await self._context.execute(CLUSTERS, cluster.name, RecordMark(term.marks.mesh), caller)
        return self._message(await self._listed(term, marked))

    async def _examine(self, term: Term, request: api.CreateClusterRequest, spec: ClusterSpec) -> ClusterDescription:
        """Asks a new cluster for its id, marks it as this mesh's, and creates what probes need there."""
        async with self._asked(term, request.name, spec) as (admin, found):
            self._check_examined(request.name, spec, found)
            reader, prefix = term.access.reader(spec), spec.topic_prefix
            await adopt(term.marks, admin, reader, request.name, prefix, request.take_over, dry_run=request.dry_run)
            if not request.dry_run:
                await prepare_canary(admin, prefix)
        return found

    async def _prove(self, term: Term, known: Cluster, spec: ClusterSpec, admin: KafkaAdmin, *, dry_run: bool) -> None:
        """Proves that the cluster at a new address is the registered one. Raises `Refused`."""
        reader, host = term.access.reader(spec), self._context.replica.host
        await require_mark(MarkLogs(term.marks.mesh, host.clock), admin, reader, known)
        if not dry_run:
            await require_same_log(term.access.admin(known), admin, reader, known, host.ids)

    @asynccontextmanager
    async def _asked(
        self, term: Term, name: str, spec: ClusterSpec
    ) -> AsyncIterator[tuple[KafkaAdmin, ClusterDescription]]:
        """A client of the cluster at an address, and the cluster's description."""
        admin = term.access.once(spec)
        try:
            found = await admin.describe_cluster()
            term.access.check_profile(spec, found.brokers.values())
            yield admin, found
        except ClusterAccessDenied as error:
            if error.withheld:  # by this registry, from a broker that the cluster told of
                message = f"{spec.bootstrap} leads to other brokers: {error.message}"
                raise Invalid(message, field="spec.bootstrap", remedy=error.remedy) from error
            message = f"cluster {name} at {spec.bootstrap} refuses the registry: {error.message}"
            field = "spec.bootstrap" if error.authenticated else "spec.security_profile"
            raise ClusterAccessDenied(message, field=field, remedy=_ACCESS, metadata=error.metadata) from error
        except ClusterUnavailable as error:
            message = f"cluster {name} does not answer at {spec.bootstrap}: {error.message}"
            raise ClusterUnavailable(message, field="spec.bootstrap", remedy="check that it runs") from error
        finally:
            await admin.close()

    def _check_examined(self, name: str, spec: ClusterSpec, found: ClusterDescription) -> None:
        for other in self._context.world().clusters.values():
            if other.exists and other.name != name and other.kafka_cluster_id == found.cluster_id:
                message = f"Kafka cluster {found.cluster_id} is registered already, as {other.name}"
                raise AlreadyExists(message, field="spec.bootstrap")
        if found.auto_creates_topics and not spec.allow_auto_create_topics:
            raise ClusterAutoCreatesTopics(
                f"cluster {name} has auto.create.topics.enable=true: deleted topics would rise again there",
                field="spec.allow_auto_create_topics",
                remedy="switch it off on the brokers, or allow it here",
            )

    def _message(self, cluster: Cluster, warnings: Sequence[str] = ()) -> cluster_pb2.Cluster:
        message = cluster_message(cluster, self._context.world())
        message.warnings.extend(warnings)
        return message


def _check_id(known: Cluster, found: ClusterDescription) -> None:
    if found.cluster_id != known.kafka_cluster_id:
        message = f"another Kafka cluster answers there: {found.cluster_id}, not {known.kafka_cluster_id}"
        raise Refused(message, field="spec.bootstrap", remedy="register it under a name of its own")
