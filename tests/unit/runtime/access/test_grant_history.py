"""Kind `grants`: given, replaced, ended, revoked; its bounds; and its events as bytes, golden files included."""

import base64
import json
from pathlib import Path
from typing import get_args

import pytest

from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.api.registry.v1 import grant_pb2 as pb
from braid.kernel.access.grants import Grant
from braid.kernel.access.roles import MESH, Resource, ResourceKind, Role
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Exhausted, Invalid, NotFound
from braid.kernel.limits.access.rights import GRANT_REASON_CHARS_MAX, GRANTS_MAX, GRANTS_PER_PRINCIPAL_MAX
from braid.runtime.access.grant_codec import GRANTS
from braid.runtime.access.grant_history import (
    AccessGranted,
    AccessRevoked,
    Command,
    Event,
    GrantRole,
    GrantsDecider,
    GrantsState,
    RevokeRole,
)

GOLDEN = Path("tests/golden/events/access")
DECIDER, CODEC = GrantsDecider(), GRANTS.codec
NOW_MS = 1_770_000_000_123
CONTEXT = Context(NOW_MS, "spiffe://braid.local/user/ann", "default", "r-1", "", 7)
ORDERS = "spiffe://braid.local/app/orders"
LOGS = Resource(ResourceKind.STREAM, "logs")
EXAMPLES: dict[str, Event] = {
    "access_granted": AccessGranted(ORDERS, Role.PRODUCER, LOGS, NOW_MS + 1_000, "for the night"),
    "access_revoked": AccessRevoked(ORDERS, Role.STREAM_OWNER, MESH, "left the team"),
}


def run(state: GrantsState, *commands: Command, now_ms: int = NOW_MS) -> tuple[GrantsState, list[Event]]:
    context = Context(now_ms, CONTEXT.actor)
    made: list[Event] = []
    for command in commands:
        for event in DECIDER.decide(state, command, context):
            state = DECIDER.evolve(state, CODEC.decode(CODEC.encode(event, context))[0], context)
            made.append(event)
    return state, made


def test_a_grant_says_who_gave_it_and_when() -> None:
    state, made = run(GrantsState(), GrantRole(ORDERS, Role.PRODUCER, LOGS, reason="orders"))
    assert made == [AccessGranted(ORDERS, Role.PRODUCER, LOGS, 0, "orders")]
    grant = Grant(ORDERS, Role.PRODUCER, LOGS, 0, "orders", CONTEXT.actor, NOW_MS)
    assert (list(state.all()), state.total) == ([grant], 1)


def test_a_repeated_grant_changes_nothing_a_new_end_replaces_it() -> None:
    once = GrantRole(ORDERS, Role.PRODUCER, LOGS)
    state, made = run(GrantsState(), once, once, GrantRole(ORDERS, Role.PRODUCER, LOGS, lasting_ms=5_000))
    assert len(made) == 2
    assert [(each.expire_ms, state.total) for each in state.all()] == [(NOW_MS + 5_000, 1)]


def test_a_revoked_grant_is_gone_and_cannot_be_revoked_again() -> None:
    revoke = RevokeRole(ORDERS, Role.PRODUCER, LOGS, "done")
    state, _ = run(GrantsState(), GrantRole(ORDERS, Role.PRODUCER, LOGS), revoke)
    assert (state.principals, state.total) == ({}, 0)
    with pytest.raises(NotFound, match="has no grant as producer on stream/logs"):
        run(state, revoke)


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (GrantRole("orders", Role.PRODUCER, LOGS), "principal"),
        (GrantRole(ORDERS, Role.ADMIN, LOGS), "resource"),
        (GrantRole(ORDERS, Role.PRODUCER, LOGS, expire_ms=NOW_MS), "expire_time_ms"),
        (GrantRole(ORDERS, Role.PRODUCER, LOGS, expire_ms=NOW_MS + 1, lasting_ms=1), "lasting_ms"),
        (GrantRole(ORDERS, Role.PRODUCER, LOGS, lasting_ms=-1), "lasting_ms"),
        (GrantRole(ORDERS, Role.PRODUCER, LOGS, lasting_ms=1 << 50), "lasting_ms"),
        (GrantRole(ORDERS, Role.PRODUCER, LOGS, reason="x" * (GRANT_REASON_CHARS_MAX + 1)), "reason"),
    ],
)
def test_what_is_out_of_form_is_refused_by_its_field(command: GrantRole, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        run(GrantsState(), command)
    assert refused.value.field == field


def test_a_principal_has_a_bounded_number_of_grants() -> None:
    many = [GrantRole(ORDERS, Role.PRODUCER, Resource(ResourceKind.STREAM, f"s-{n}")) for n in range(300)]
    state, _ = run(GrantsState(), *many[:GRANTS_PER_PRINCIPAL_MAX])
    with pytest.raises(Exhausted, match="which is the most"):
        run(state, many[GRANTS_PER_PRINCIPAL_MAX])
    assert run(state, GrantRole(ORDERS, Role.PRODUCER, many[0].resource, reason="again"))[1], "replaced, not added"


def test_a_full_mesh_grants_no_more_until_some_have_ended() -> None:
    held = {f"dns:p{n}": (Grant(f"dns:p{n}", Role.VIEWER, MESH, NOW_MS + 10),) for n in range(GRANTS_MAX)}
    state = GrantsState(held, GRANTS_MAX)
    with pytest.raises(Exhausted, match=f"{GRANTS_MAX} grants"):
        run(state, GrantRole(ORDERS, Role.VIEWER, MESH))
    later, _ = run(state, GrantRole(ORDERS, Role.VIEWER, MESH), now_ms=NOW_MS + 10)
    assert ([each.principal for each in later.all()], later.total) == ([ORDERS], 1), "those that ended made room"


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    fields = {field.name for field in pb.AccessEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = CODEC.decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]
    assert CODEC.encode(event, context) == base64.b64decode(golden["data"])


def test_a_state_comes_back_from_its_bytes() -> None:
    state, _ = run(
        GrantsState(), *(GrantRole(ORDERS, role, MESH, reason=role.value) for role in (Role.ADMIN, Role.VIEWER))
    )
    assert CODEC.decode_state(CODEC.encode_state(state)) == state
    assert CODEC.decode_state(CODEC.encode_state(GrantsState())) == GrantsState()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        pb.AccessEvent(metadata=EventMetadata(time_ms=1)).SerializeToString(),
        pb.AccessEvent(access_granted=pb.AccessGranted(spec=pb.GrantSpec(principal="dns:a"))).SerializeToString(),
        pb.AccessEvent(
            access_revoked=pb.AccessRevoked(principal="dns:a", role=pb.ACCESS_ROLE_ADMIN, resource="moon/1")
        ).SerializeToString(),
    ],
)
def test_an_event_of_a_newer_release_is_no_event(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode(data)


@pytest.mark.parametrize("data", [b"\xff", pb.ListGrantsResponse(grants=[pb.Grant()]).SerializeToString()])
def test_a_state_out_of_form_is_no_state(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode_state(data)
