"""Split leases: wishes for the holder of a moment, reports told twice, told late, told by ghosts."""

import pytest

from braid.kernel.errors import Invalid, NotFound
from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX
from services.assigner.codec import snapshots
from services.assigner.model import backlog_splits
from services.assigner.model.backlog_splits import (
    LeaseSplit,
    ReportSplits,
    SplitAsked,
    SplitBacklog,
    SplitEnded,
    SplitRefused,
    ToldSplit,
)
from services.assigner.model.channels import CloseChannel
from services.assigner.model.commands import (
    Balance,
    RemoveMember,
)
from services.assigner.model.events import (
    GoneReason,
    LeasesGranted,
)
from services.assigner.model.group import Group
from services.assigner.model.progress_findings import ProgressDoubted, ReportDoubts
from services.assigner.servicer.reads import group_message
from tests.unit.assigner.groups import History, joined, member

FIRST, SECOND = member(1), member(2)


def granted() -> tuple[History, str, int, str]:
    """A group of two members that hold leases; one of them, its epoch and its holder."""
    history = joined(2)
    name, lease = next((name, lease) for name, lease in sorted(history.state.leases.items()) if lease.holder)
    return history, name, lease.epoch, lease.holder


def told(lease: str, epoch: int, at: int = 500, share: float = 0.2, refused: str = "") -> ToldSplit:
    """A holder's report about a split."""
    return ToldSplit(lease, epoch, at, share, refused)


def shown(state: Group) -> list[tuple[str, int, bool, str]]:
    """The splits as people see them."""
    return [(each.lease, each.at, each.asked, each.refused) for each in group_message(state).status.splits]


def test_a_wish_names_leases_by_stream_lane_partition_and_holder() -> None:
    history, name, epoch, holder = granted()
    partition = int(name.rpartition("/")[2])
    assert history.do(SplitBacklog("logs", 0.2, "live", partition)) == [SplitAsked(name, epoch, 0.2, False)]
    assert [each.lease for each in backlog_splits.asked(history.state, holder)] == [name]
    assert shown(history.state) == [(name, -1, True, "")]
    assert len(history.do(SplitBacklog("logs", 0.2, relaxed=True))) == len(history.state.leases)
    for wrong in (SplitBacklog("metrics", 0.2), SplitBacklog("logs", 0.2, "bulk"), SplitBacklog("logs", 0.2, "", 99)):
        with pytest.raises(NotFound):
            history.do(wrong)
    for share in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(Invalid):
            history.do(SplitBacklog("logs", share))


def test_a_report_says_all_so_that_twice_and_late_are_alike() -> None:
    history, name, epoch, holder = granted()
    history.do(SplitBacklog("logs", 0.2, "live", int(name.rpartition("/")[2])))
    assert history.do(ReportSplits(holder, ())) == [], "told before it was asked"
    assert history.do(ReportSplits(holder, (told(name, epoch),))) == [LeaseSplit(name, epoch, 500, 0.2)]
    assert shown(history.state) == [(name, 500, False, "")] and not backlog_splits.asked(history.state, holder)
    assert history.do(ReportSplits(holder, (told(name, epoch),))) == []
    assert history.do(ReportSplits(holder, ())) == [SplitEnded(name)]
    assert history.do(ReportSplits(holder, ())) == [] and not history.state.splits


def test_a_refusal_stays_until_the_next_wish_and_is_bounded() -> None:
    history, name, epoch, holder = granted()
    partition = int(name.rpartition("/")[2])
    refused = ReportSplits(holder, (told(name, epoch, -1, 0.0, "x" * 10_000),))
    assert history.do(refused) == [], "nobody asked"
    history.do(SplitBacklog("logs", 0.2, "live", partition))
    assert history.do(refused) == [SplitRefused(name, epoch, "x" * HELLO_TEXT_MAX)]
    assert history.do(refused) == []
    assert shown(history.state) == [(name, -1, False, "x" * HELLO_TEXT_MAX)]
    history.do(SplitBacklog("logs", 0.3, "live", partition))
    assert shown(history.state) == [(name, -1, True, "")]


def test_a_wish_is_for_one_holder_and_ghosts_are_ignored() -> None:
    history, name, epoch, holder = granted()
    other = SECOND if holder == FIRST else FIRST
    assert history.do(ReportSplits(other, (told(name, epoch),))) == []
    assert history.do(ReportSplits(holder, (told(name, epoch - 1),))) == []
    assert history.do(ReportSplits(member(9), (told(name, epoch),))) == []
    history.do(SplitBacklog("logs", 0.2, "live", int(name.rpartition("/")[2])))
    history.do(RemoveMember(holder, GoneReason.DISCONNECTED))
    events = history.do(Balance((other,)))
    assert any(isinstance(event, LeasesGranted) for event in events)
    assert not backlog_splits.asked(history.state, other) and shown(history.state) == []
    now = history.state.leases[name].epoch
    assert history.do(ReportSplits(other, (told(name, now),))) == [LeaseSplit(name, now, 500, 0.2)]
    assert shown(history.state) == [(name, 500, False, "")]


def test_nothing_of_a_channel_that_ended_is_kept() -> None:
    history, name, epoch, holder = granted()
    history.do(SplitBacklog("logs", 0.2))
    history.do(ReportDoubts(holder, (ProgressDoubted(name, epoch, "expired", 0, 9, "gone"),)))
    assert history.state.splits and history.state.doubts
    history.do(CloseChannel(name.rpartition("/")[0], 99))
    assert not history.state.splits and not history.state.doubts


def test_splits_survive_snapshots() -> None:
    history, name, epoch, holder = granted()
    history.do(SplitBacklog("logs", 0.2))
    history.do(ReportSplits(holder, (told(name, epoch),)))
    assert history.state.splits
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
