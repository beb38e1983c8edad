"""Quotas of Kafka users in a cluster's history: remembered once, released once, gone with the Kafka cluster."""

import pytest

from braid.kernel.errors import Exhausted
from braid.kernel.limits.registry.resources import CLIENT_QUOTAS_MAX
from services.registry.model.clusters.client_quotas import (
    ClientQuota,
    ClientQuotasIntended,
    ClientQuotasReleased,
    IntendClientQuotas,
    ReleaseClientQuotas,
)
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import ClusterCommand, DeleteCluster, ObserveIdentity
from services.registry.model.clusters.events import ClusterEvent
from tests.unit.registry.histories import cluster, run_cluster

RATE = "producer_byte_rate"
SHOP, WEB = ClientQuota("shop", "", RATE, 100), ClientQuota("web", "a", RATE, 5)
BOTH = (SHOP, WEB)


def run(state: Cluster, *commands: ClusterCommand) -> tuple[Cluster, list[ClusterEvent]]:
    """Decides and folds commands, one after the other."""
    events: list[ClusterEvent] = []
    for command in commands:
        state, made = run_cluster(state, command)
        events += made
    return state, events


def test_quotas_are_remembered_once_and_released_once() -> None:
    state, events = run(cluster("east"), IntendClientQuotas((WEB, SHOP)), IntendClientQuotas((SHOP,)))
    assert events == [ClientQuotasIntended(BOTH, state.spec)] and state.client_quotas == BOTH
    state, events = run(state, ReleaseClientQuotas((SHOP,)), ReleaseClientQuotas((SHOP,)))
    assert events == [ClientQuotasReleased((SHOP,), state.spec)] and state.client_quotas == (WEB,)


def test_another_value_takes_the_place_of_the_one_before() -> None:
    more = ClientQuota("shop", "", RATE, 200)
    state, _ = run(cluster("east"), IntendClientQuotas(BOTH), IntendClientQuotas((more,)))
    assert state.client_quotas == (more, WEB)
    assert run(state, ReleaseClientQuotas((SHOP,)))[0].client_quotas == (WEB,)


def test_a_replaced_cluster_has_no_quotas_of_braids() -> None:
    state, _ = run(cluster("east"), IntendClientQuotas(BOTH), ObserveIdentity("another"))
    assert state.client_quotas == ()
    gone, _ = run(cluster("east"), IntendClientQuotas(BOTH), DeleteCluster())
    assert gone.client_quotas == ()


def test_a_cluster_has_a_bound_of_quotas() -> None:
    most = tuple(ClientQuota(f"u{n}", "", RATE, 1) for n in range(CLIENT_QUOTAS_MAX))
    state, _ = run(cluster("east"), IntendClientQuotas(most))
    with pytest.raises(Exhausted, match=f"more than {CLIENT_QUOTAS_MAX} quotas"):
        run(state, IntendClientQuotas((SHOP,)))
    assert run(state, IntendClientQuotas((ClientQuota("u0", "", RATE, 2),)))[1]
