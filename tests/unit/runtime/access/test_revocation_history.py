"""Kind `revocations`: revoked, lifted, forgotten; its bounds; its events as bytes, golden files included."""

import base64
import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.api.registry.v1 import revocation_pb2 as pb
from braid.kernel.access.revocations import Revocation
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory, Exhausted, Invalid, NotFound
from braid.kernel.limits.access.rights import GRANT_REASON_CHARS_MAX, REVOCATION_KEPT_SECONDS, REVOCATIONS_MAX
from braid.runtime.access.revocation_codec import REVOCATIONS
from braid.runtime.access.revocation_history import (
    Command,
    Event,
    IdentityRevoked,
    LiftRevocation,
    RevocationLifted,
    RevocationsDecider,
    RevocationsState,
    RevokeIdentity,
)

GOLDEN = Path("tests/golden/events/identities")
DECIDER, CODEC = RevocationsDecider(), REVOCATIONS.codec
NOW_MS = 1_770_000_000_123
DAY_MS = int(REVOCATION_KEPT_SECONDS * 1_000)
CONTEXT = Context(NOW_MS, "spiffe://braid.local/user/ann", "default", "r-1", "", 7)
ORDERS = "spiffe://braid.local/app/orders"
STOLEN = f"sha256:{'0123456789abcdef' * 4}"
EXAMPLES: dict[str, Event] = {
    "identity_revoked": IdentityRevoked(STOLEN, ORDERS, "laptop stolen", NOW_MS + 1_000),
    "revocation_lifted": RevocationLifted(ORDERS, "it was found"),
}


def run(state: RevocationsState, *commands: Command, now_ms: int = NOW_MS) -> tuple[RevocationsState, list[Event]]:
    context = Context(now_ms, CONTEXT.actor)
    made: list[Event] = []
    for command in commands:
        for event in DECIDER.decide(state, command, context):
            state = DECIDER.evolve(state, CODEC.decode(CODEC.encode(event, context))[0], context)
            made.append(event)
    return state, made


def test_a_revocation_says_who_revoked_and_when() -> None:
    state, made = run(RevocationsState(), RevokeIdentity(STOLEN, ORDERS, "stolen", NOW_MS + 5))
    assert made == [IdentityRevoked(STOLEN, ORDERS, "stolen", NOW_MS + 5)]
    assert list(state.all()) == [Revocation(STOLEN, ORDERS, "stolen", NOW_MS + 5, CONTEXT.actor, NOW_MS)]


def test_a_repeat_changes_nothing_and_another_reason_replaces_it() -> None:
    once = RevokeIdentity(ORDERS)
    state, made = run(RevocationsState(), once, once, RevokeIdentity(ORDERS, reason="left"))
    assert [each.reason for each in made] == ["", "left"]
    assert [each.reason for each in state.all()] == ["left"]


def test_an_identity_has_one_form() -> None:
    digits = STOLEN.removeprefix("sha256:").upper()
    typed = "sha256:" + ":".join(digits[n : n + 2] for n in range(0, len(digits), 2))
    state, made = run(RevocationsState(), RevokeIdentity(typed), RevokeIdentity(STOLEN), RevokeIdentity("serial:0A:1B"))
    assert [each.identity for each in made] == [STOLEN, "serial:a1b"]
    assert not run(state, LiftRevocation(typed), LiftRevocation("serial:0xA1B"))[0].revocations


def test_what_is_lifted_is_gone_and_cannot_be_lifted_again() -> None:
    state, _ = run(RevocationsState(), RevokeIdentity(ORDERS), LiftRevocation(ORDERS, "found"))
    assert not state.revocations
    with pytest.raises(NotFound, match="is not revoked"):
        run(state, LiftRevocation(ORDERS))


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (RevokeIdentity("orders"), "identity"),
        (RevokeIdentity("sha256:abc"), "identity"),
        (RevokeIdentity(f"sha256:{'g' * 64}"), "identity"),
        (RevokeIdentity("serial:"), "identity"),
        (RevokeIdentity("serial:00"), "identity"),
        (RevokeIdentity(f"serial:{'1' * 41}"), "identity"),
        (LiftRevocation("spiffe://"), "identity"),
        (RevokeIdentity(STOLEN, "orders"), "principal"),
        (RevokeIdentity(ORDERS, ORDERS), "principal"),
        (RevokeIdentity(ORDERS, expire_ms=NOW_MS + 1), "expire_time_ms"),
        (RevokeIdentity(STOLEN, expire_ms=NOW_MS), "expire_time_ms"),
        (RevokeIdentity(STOLEN, expire_ms=-1), "expire_time_ms"),
        (RevokeIdentity(ORDERS, reason="x" * (GRANT_REASON_CHARS_MAX + 1)), "reason"),
        (LiftRevocation(ORDERS, "x" * (GRANT_REASON_CHARS_MAX + 1)), "reason"),
    ],
)
def test_what_is_out_of_form_is_refused_by_its_field(command: Command, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        run(RevocationsState(), command)
    assert refused.value.field == field


def test_an_ended_certificate_is_forgotten_but_never_a_principal() -> None:
    state, _ = run(RevocationsState(), RevokeIdentity(STOLEN, expire_ms=NOW_MS + 10), RevokeIdentity(ORDERS))
    later = RevokeIdentity("serial:1")
    assert STOLEN in run(state, later, now_ms=NOW_MS + 9 + DAY_MS)[0].revocations
    assert set(run(state, later, now_ms=NOW_MS + 10 + DAY_MS)[0].revocations) == {ORDERS, "serial:1"}


def test_a_full_mesh_revokes_no_more_until_certificates_end() -> None:
    held = {f"serial:{n + 1:x}": Revocation(f"serial:{n + 1:x}", expire_ms=NOW_MS + 10) for n in range(REVOCATIONS_MAX)}
    state = RevocationsState(held)
    with pytest.raises(Exhausted, match=f"{REVOCATIONS_MAX} revocations"):
        run(state, RevokeIdentity(ORDERS))
    assert run(state, RevokeIdentity("serial:1", reason="again", expire_ms=NOW_MS + 10))[1], "replaced, not added"
    later, _ = run(state, RevokeIdentity(ORDERS), now_ms=NOW_MS + 10 + DAY_MS)
    assert set(later.revocations) == {ORDERS}, "those that ended made room"


_IDENTITIES = st.sampled_from([ORDERS, STOLEN, "serial:a1b"])
_EVENTS = st.one_of(st.builds(IdentityRevoked, _IDENTITIES), st.builds(RevocationLifted, _IDENTITIES))


@given(st.lists(st.tuples(_EVENTS, st.integers(1, 3)), max_size=12))
def test_events_told_twice_mean_what_they_mean_once(
    told: list[tuple[Event, int]],
) -> None:
    """A lift of what is not revoked is among them, as a fold meets it that begins in the middle."""
    once = twice = RevocationsState()
    for event, times in told:
        once = DECIDER.evolve(once, event, CONTEXT)
        for _ in range(times):
            twice = DECIDER.evolve(twice, event, CONTEXT)
    assert once == twice
    last = {event.identity: isinstance(event, IdentityRevoked) for event, _ in told}
    assert set(once.revocations) == {identity for identity, revoked in last.items() if revoked}
    assert CODEC.decode_state(CODEC.encode_state(once)) == once


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    fields = {field.name for field in pb.RevocationEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    assert {type(example) for example in EXAMPLES.values()} == set(get_args(Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = CODEC.decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]
    assert CODEC.encode(event, context) == base64.b64decode(golden["data"])


@pytest.mark.parametrize("data", [b"\xff", pb.RevocationEvent(metadata=EventMetadata(time_ms=1)).SerializeToString()])
def test_an_event_of_a_newer_release_is_no_event(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode(data)


def test_a_state_out_of_form_is_no_state() -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode_state(b"\xff")
