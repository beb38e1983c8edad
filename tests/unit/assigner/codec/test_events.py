"""Events and states as bytes: round trips, golden files of every released event, and what must not decode."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from braid.api.assigner.v1 import events_pb2 as pb
from braid.api.mesh.v1.event_pb2 import EventMetadata
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.kernel.ids import make_epoch
from services.assigner.codec.events import GroupCodec
from services.assigner.model import backlog_splits as sp
from services.assigner.model import events as ev
from services.assigner.model import progress_findings as do
from services.assigner.model import progress_resets as re
from services.assigner.model import rules as ru
from services.assigner.model import stopped_lanes as st
from services.assigner.model.channels import ChannelClosed, ChannelObserved
from services.assigner.model.group import Group, GroupSpec, Ownership, StartKind, StartPosition
from services.assigner.model.lag import response_events as res
from services.assigner.model.lag import scaling_events as se
from tests.unit.assigner.groups import joined, member, seen

GOLDEN = Path("tests/golden/events/assigner")
CODEC = GroupCodec()
CONTEXT = Context(1_770_000_000_123, "assigner-0", "default", "r-1", "cluster/east DOWN", make_epoch(1, 5))
SPEC = GroupSpec(("logs", "metrics"), (("bulk", 2), ("live", 8)), Ownership.EXCLUSIVE, 500)
GRANTS = (ev.LeaseGrant("logs/live/1/0", member(1), make_epoch(1, 1)), ev.LeaseGrant("logs/live/1/1", member(2), 9))

# One of each; what they were at their release is in the golden files.
EXAMPLES: dict[str, ev.Event] = {
    "group_registered": ev.GroupRegistered(SPEC),
    "group_updated": ev.GroupUpdated(GroupSpec(("logs",), start=StartPosition(StartKind.TIME, 17))),
    "group_deleted": ev.GroupDeleted(),
    "group_idle_expired": ev.GroupIdleExpired(),
    "start_fixed": ev.StartFixed("logs/live/1", (3, 0, 12)),
    "channel_observed": ChannelObserved("logs/live/1", "east", "braid.logs.live.1", 3, True, 41, True),
    "channel_closed": ChannelClosed("logs/live/1", 42),
    "member_joined": ev.MemberJoined(member(1), "web-1", "a", 1.5, 1, ("x",), "10.0.0.1:1"),
    "member_gone": ev.MemberGone(member(1), ev.GoneReason.EXPIRED),
    "leases_granted": ev.LeasesGranted(GRANTS),
    "revokes_started": ev.RevokesStarted(GRANTS, 1_770_000_030_000, "balanced over 2 members"),
    "leases_released": ev.LeasesReleased(GRANTS, ev.ReleaseReason.TAKEN, ("logs/live/1/0",)),
    "bump_intended": ev.BumpIntended("east", "braid-1-7d5f"),
    "generation_bumped": ev.GenerationBumped("east", "braid-1-7d5f", 12),
    "fencing_waived": ev.FencingWaived("east"),
    "progress_set_aside": ev.ProgressSetAside("east"),
    "membership_ended": ev.MembershipEnded("east"),
    "lease_pinned": ru.LeasePinned("logs/live/1/3", "web-1", strict=True),
    "lease_unpinned": ru.LeaseUnpinned("logs/live/1/3"),
    "member_banned": ru.MemberBanned("web-1", "logs/bulk"),
    "member_unbanned": ru.MemberUnbanned("web-1", "", "east"),
    "group_frozen": ru.GroupFrozen("release"),
    "group_unfrozen": ru.GroupUnfrozen(),
    "member_drain_started": ru.MemberDrainStarted("web-1", "host update"),
    "member_drained": ru.MemberDrained("web-1"),
    "member_drain_ended": ru.MemberDrainEnded("web-1"),
    "capacity_set": ru.CapacitySet("web-1", 2.5),
    "capacity_unset": ru.CapacityUnset("web-1"),
    "spreading_set": ru.SpreadingSet(ru.Zones.PREFER, hosts=True),
    "policy_set": ru.PolicySet(ru.PlacementPolicy(ru.Basis.COUNT)),
    "shadow_set": ru.ShadowSet(ru.PlacementPolicy(ru.Basis.LOAD, 0.25, 0.5)),
    "shadow_ended": ru.ShadowEnded(),
    "reset_intended": re.ResetIntended("logs/live/1", (17, -1, 40), (3, 0, -1)),
    "lane_stopped": st.LaneStopped(member(1), "live", "100 records in a row would be dead-lettered"),
    "lane_resumed": st.LaneResumed(member(1), "live"),
    "lane_resume_asked": st.LaneResumeAsked(member(1), "live"),
    "progress_doubted": do.ProgressDoubted("logs/live/1/0", 9, "truncated", 400, 500, "the log lost its end"),
    "split_asked": sp.SplitAsked("logs/live/1/0", 9, 0.25, relaxed=True),
    "lease_split": sp.LeaseSplit("logs/live/1/0", 9, 1_000_000, 0.25),
    "split_refused": sp.SplitRefused("logs/live/1/0", 9, "its lease was moving"),
    "split_ended": sp.SplitEnded("logs/live/1/0"),
    "progress_reset": re.ProgressReset("logs/live/1", (3, 0, -1)),
}


def test_there_is_an_example_and_a_golden_file_for_every_event() -> None:
    fields = {field.name for field in pb.AssignerEvent.DESCRIPTOR.oneofs_by_name["event"].fields}
    assert fields == set(EXAMPLES) == {path.stem for path in GOLDEN.glob("*.json")}
    later = {ev.GroupIdleAlerted, se.ScalingSet, se.CapacityDesired, *get_args(res.ResponseEvent)}
    assert {type(example) for example in EXAMPLES.values()} | later == set(get_args(ev.Event))


@pytest.mark.parametrize("name", EXAMPLES)
def test_released_bytes_still_mean_the_same(name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text())
    event, context = CODEC.decode(base64.b64decode(golden["data"]))
    assert (event, context) == (EXAMPLES[name], CONTEXT)
    assert repr(event) == golden["event"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_events_survive_the_round_trip(name: str) -> None:
    data = CODEC.encode(EXAMPLES[name], CONTEXT)
    assert CODEC.decode(data) == (EXAMPLES[name], CONTEXT)
    assert CODEC.encode(EXAMPLES[name], CONTEXT) == data
    assert pb.AssignerEvent.FromString(data).WhichOneof("event") == name


def test_starts_survive_the_round_trip() -> None:
    for kind in StartKind:
        start = StartPosition(kind, 5 if kind is StartKind.TIME else 0)
        event = ev.GroupRegistered(GroupSpec(("logs",), start=start))
        assert CODEC.decode(CODEC.encode(event, CONTEXT))[0] == event


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff",
        b"",
        pb.AssignerEvent(metadata=EventMetadata(time_ms=1)).SerializeToString(),
        b"\xfa\x3f\x00",  # a field no release has
        pb.AssignerEvent(member_gone=pb.MemberGone(member="m")).SerializeToString(),  # an enum's zero
        pb.AssignerEvent(leases_released=pb.LeasesReleased()).SerializeToString(),
        pb.AssignerEvent(group_registered=pb.GroupRegistered()).SerializeToString(),
    ],
)
def test_what_is_no_known_event_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode(data)


def test_states_round_trip_and_equal_states_give_equal_bytes() -> None:
    for state in (Group("indexer"), joined(3, seen(), seen("logs/bulk/1", 3)).state):
        data = CODEC.encode_state(state)
        assert CODEC.decode_state(data) == state
        assert CODEC.encode_state(CODEC.decode_state(data)) == data


def test_the_former_release_passes_over_digests_of_secrets() -> None:
    state = joined(2, seen()).state
    known = state.members[member(1)]
    whole = state.with_member(replace(known, secret_digest="5f" * 16))
    data = CODEC.encode_state(whole)
    assert CODEC.decode_state(data) == whole
    document = json.loads(data)
    assert document["rules"]["later_of_members"] == {member(1): "5f" * 16}
    assert all("secret_digest" not in each for each in document["members"])
    event = ev.MemberJoined(member(1), "web-1", "a", 1.5, 1, ("secret",), "10.0.0.1:1", "", "5f" * 16)
    assert CODEC.decode(CODEC.encode(event, CONTEXT))[0] == event


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1,"name":"g"}'])
def test_what_is_no_state_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        CODEC.decode_state(data)
