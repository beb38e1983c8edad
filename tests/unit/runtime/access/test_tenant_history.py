"""Kind `tenants`: declared, declared anew, deleted; its bound; its events as bytes, golden files included."""

import base64
import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.api.registry.v1 import tenant_pb2 as pb
from braid.kernel.access.kafka_users import KafkaUser
from braid.kernel.access.tenants import Quotas, Tenant
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Exhausted, Invalid, NotFound
from braid.kernel.limits.access.rights import TENANTS_MAX
from braid.runtime.access.tenant_codec import TENANTS
from braid.runtime.access.tenant_history import (
    Command,
    DeleteTenant,
    Event,
    SetTenant,
    TenantDeleted,
    TenantsDecider,
    TenantSet,
    TenantsState,
)

GOLDEN = Path("tests/golden/events/tenants")
DECIDER, CODEC = TenantsDecider(), TENANTS.codec
NOW_MS = 1_770_000_000_123
CONTEXT = Context(NOW_MS, "spiffe://braid.local/user/ann", "default", "r-1", "", 7)
ACME = ("spiffe://braid.local/acme/*",)
QUOTAS = Quotas(streams=3, partitions=48, groups=5, members=7, open_calls=200, requests_per_second=100)
EXAMPLES: dict[str, Event] = {
    "tenant_set": TenantSet("acme", (*ACME, "dns:acme.example"), QUOTAS),
    "tenant_deleted": TenantDeleted("acme"),
}


def run(state: TenantsState, *commands: Command) -> tuple[TenantsState, list[Event]]:
    made: list[Event] = []
    for command in commands:
        for event in DECIDER.decide(state, command, CONTEXT):
            state = DECIDER.evolve(state, CODEC.decode(CODEC.encode(event, CONTEXT))[0], CONTEXT)
            made.append(event)
    return state, made


def test_a_tenant_says_who_declared_it_and_when() -> None:
    state, made = run(TenantsState(), SetTenant("acme", ACME, QUOTAS))
    assert made == [TenantSet("acme", ACME, QUOTAS)]
    assert list(state.all()) == [Tenant("acme", ACME, QUOTAS, CONTEXT.actor, NOW_MS)]


def test_the_same_again_changes_nothing_and_a_new_quota_does() -> None:
    once = SetTenant("acme", ACME, QUOTAS)
    state, made = run(TenantsState(), once, once, SetTenant("acme", ACME, Quotas(streams=1)))
    assert len(made) == 2
    assert state.tenants["acme"].quotas == Quotas(streams=1)


def test_users_at_kafka_are_kept_in_events_and_snapshots() -> None:
    quotas = Quotas(producer_bytes_per_second=1 << 40, consumer_bytes_per_second=7, request_percentage=250)
    users = (KafkaUser("shop"), KafkaUser("CN=web,O=Acme", "batch", ("east", "west"), take_over=True))
    state, made = run(TenantsState(), SetTenant("acme", ACME, quotas, users), SetTenant("acme", ACME, quotas, users))
    assert len(made) == 1
    assert state.tenants["acme"] == Tenant("acme", ACME, quotas, CONTEXT.actor, NOW_MS, users)
    assert CODEC.decode_state(CODEC.encode_state(state)) == state
    assert run(state, SetTenant("acme", ACME, quotas, users[:1]))[1]


def test_a_deleted_tenant_is_gone_and_cannot_be_deleted_again() -> None:
    state, _ = run(TenantsState(), SetTenant("acme", ACME, QUOTAS), DeleteTenant("acme"))
    assert not state.tenants
    with pytest.raises(NotFound, match="there is no tenant acme"):
        run(state, DeleteTenant("acme"))


def test_a_principal_is_in_one_tenant_alone() -> None:
    with pytest.raises(Invalid, match="is of tenant acme already"):
        run(TenantsState(), SetTenant("acme", ACME, Quotas()), SetTenant("bakery", ACME, Quotas()))


def test_a_full_mesh_takes_no_more_tenants() -> None:
    state = TenantsState({f"t{n}": Tenant(f"t{n}") for n in range(TENANTS_MAX)})
    with pytest.raises(Exhausted, match=f"{TENANTS_MAX} tenants"):
        run(state, SetTenant("acme", ACME, QUOTAS))
    assert run(state, SetTenant("t0", ACME, QUOTAS))[1]


_NAMES = st.sampled_from(["acme", "bakery", "default"])
_EVENTS = st.one_of(
    st.builds(TenantSet, _NAMES, st.just(ACME), st.builds(Quotas, st.integers(0, 3))), st.builds(TenantDeleted, _NAMES)
)


@given(st.lists(st.tuples(_EVENTS, st.integers(1, 3)), max_size=12))
def test_events_told_twice_mean_what_they_mean_once(told: list[tuple[Event, int]]) -> None:
    once = twice = TenantsState()
    for event, times in told:
        once = DECIDER.evolve(once, event, CONTEXT)
        for _ in range(times):
            twice = DECIDER.evolve(twice, event, CONTEXT)
    assert once == twice
    assert CODEC.decode_state(CODEC.encode_state(once)) == once


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    fields = {field.name for field in pb.TenantEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = CODEC.decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]
    assert CODEC.encode(event, context) == base64.b64decode(golden["data"])


@pytest.mark.parametrize("data", [b"\xff", pb.TenantEvent(metadata=EventMetadata(time_ms=1)).SerializeToString()])
def test_an_event_of_a_newer_release_is_no_event(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode(data)


def test_a_state_out_of_form_is_no_state() -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode_state(b"\xff")
