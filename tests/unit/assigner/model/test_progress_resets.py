"""Resets of progress: recorded before they are written, holding grants back, each step told twice or late."""

import json
from dataclasses import replace

import pytest

from braid.kernel.errors import NotFound, Refused, Unavailable
from services.assigner.codec import snapshots
from services.assigner.model import progress_resets
from services.assigner.model.channels import Presence
from services.assigner.model.commands import (
    Balance,
    JoinMember,
    ObserveChannels,
)
from services.assigner.model.events import LeasesGranted
from services.assigner.model.group import Group, GroupSpec
from services.assigner.model.progress_resets import ProgressReset, RecordReset, ResetIntended, ResetProgress
from tests.unit.assigner.groups import SPEC, History, hello, joined, member, registered, seen, view

LIVE = "logs/live/1"
INTENT = ResetIntended(LIVE, (7, 7, -1, 7), (0, -1, 0, 3))


def test_nothing_is_granted_between_the_intent_and_its_result() -> None:
    history = registered()
    assert history.do(ResetProgress((INTENT,))) == [INTENT]
    assert progress_resets.pending(history.state) == [LIVE]
    history.do(JoinMember(hello(member(1)), SPEC))
    assert history.do(Balance((member(1),))) == []
    assert history.do(RecordReset(LIVE, (9, 9, 9, 9))) == [], "of an intent that was replaced"
    assert history.do(RecordReset(LIVE, INTENT.offsets)) == [ProgressReset(LIVE, INTENT.offsets)]
    assert history.do(RecordReset(LIVE, INTENT.offsets)) == [], "told twice"
    assert isinstance(history.do(Balance((member(1),)))[0], LeasesGranted)


def test_a_later_intent_replaces_an_earlier_one() -> None:
    history = registered()
    later = ResetIntended(LIVE, INTENT.before, (5, 5, 5, 5))
    history.do(ResetProgress((INTENT,)))
    history.do(ResetProgress((later,)))
    assert history.do(RecordReset(LIVE, INTENT.offsets)) == []
    assert history.do(RecordReset(LIVE, later.offsets)) == [ProgressReset(LIVE, later.offsets)]


def test_a_reset_is_refused_while_a_lease_is_held_or_start_open() -> None:
    history = joined(1)
    with pytest.raises(Refused, match=r"4 leases are held, by .* \(4\)"):
        history.do(ResetProgress((INTENT,)))
    fresh = History()
    fresh.do(JoinMember(hello(member(1)), SPEC, view=view(10, seen())))
    with pytest.raises(Unavailable, match="not fixed yet"):
        fresh.do(ResetProgress((INTENT,)))
    with pytest.raises(NotFound):
        history.do(ResetProgress((ResetIntended("logs/dlq/1", (), ()),)))
    with pytest.raises(NotFound):
        History().do(ResetProgress((INTENT,)))


def test_an_intent_outlives_snapshots_and_ends_with_its_channel() -> None:
    history = registered()
    history.do(ResetProgress((INTENT,)))
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    history.do(ObserveChannels(view(20, seen(cluster="west"))))
    assert history.state.channels[LIVE].reset == INTENT.offsets
    history.do(ObserveChannels(view(21, seen(presence=Presence.GONE, cluster="west"))))
    assert (history.state.channels[LIVE].reset, progress_resets.pending(history.state)) == (None, [])
    assert history.do(RecordReset(LIVE, INTENT.offsets)) == []


def test_a_group_of_another_stream_is_not_touched() -> None:
    history = registered(seen("metrics/live/1"), spec=GroupSpec(("metrics",)))
    with pytest.raises(NotFound, match="does not consume channel logs/live/1"):
        history.do(ResetProgress((INTENT,)))


def test_intents_and_results_count_and_the_idle_wait_restarts() -> None:
    history = registered()
    history.state = replace(history.state, idle_expired=True)
    history.now_ms += 60_000
    history.do(ResetProgress((INTENT,)))
    assert (history.state.resets, history.state.idle_expired) == (1, False)
    assert history.state.idle_since_ms == history.now_ms
    history.do(RecordReset(LIVE, INTENT.offsets))
    assert history.state.resets == 2
    assert snapshots.decode(snapshots.encode(history.state)) == history.state


def test_the_first_release_passes_over_later_snapshot_fields() -> None:
    history = registered()
    assert b'"later"' not in snapshots.encode(history.state)
    history.do(ResetProgress((INTENT,)))
    document = json.loads(snapshots.encode(history.state))
    assert document["rules"].pop("later") == {"resets": 1}
    assert not {field for field in document if field not in Group.__dataclass_fields__} - {"format"}
    assert "resets" not in document
