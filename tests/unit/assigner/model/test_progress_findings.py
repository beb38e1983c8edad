"""Findings of holders about commits: reported twice, late, by unknown members, forgotten with the epoch."""

from dataclasses import replace

from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX
from services.assigner.codec import snapshots
from services.assigner.model.commands import (
    Balance,
    RemoveMember,
)
from services.assigner.model.events import GoneReason
from services.assigner.model.group import Group
from services.assigner.model.progress_findings import ProgressDoubted, ReportDoubts
from services.assigner.servicer.reads import group_message
from tests.unit.assigner.groups import History, joined, member


def doubt() -> tuple[History, str, ProgressDoubted]:
    """A group of two members, who holds one of its leases, and what it found there."""
    history = joined(2)
    name, lease = next(iter(sorted(history.state.leases.items())))
    return history, lease.holder, ProgressDoubted(name, lease.epoch, "truncated", 400, 500, "the log lost its end")


def shown(state: Group) -> list[str]:
    """The findings as people see them."""
    return list(group_message(state).status.doubts)


def test_what_is_told_again_is_no_news_and_people_see_it() -> None:
    history, holder, found = doubt()
    assert history.do(ReportDoubts(holder, (found,))) == [found]
    assert history.do(ReportDoubts(holder, (found,))) == []
    assert shown(history.state) == [f"{found.lease} truncated 400 to 500: the log lost its end"]
    more = replace(found, end=600)
    assert history.do(ReportDoubts(holder, (more,))) == [more]
    assert snapshots.decode(snapshots.encode(history.state)) == history.state


def test_ghosts_and_old_epochs_are_ignored_and_words_bounded() -> None:
    history, holder, found = doubt()
    other = member(2) if holder == member(1) else member(1)
    for who, what in ((other, found), (member(9), found), (holder, replace(found, epoch=found.epoch - 1))):
        assert history.do(ReportDoubts(who, (what,))) == []
    (event,) = history.do(ReportDoubts(holder, (replace(found, reason="x" * 10_000),)))
    assert isinstance(event, ProgressDoubted) and len(event.reason) == HELLO_TEXT_MAX
    history.do(RemoveMember(holder, GoneReason.DISCONNECTED), Balance((other,)))
    assert shown(history.state) == [], "the next holder looks anew"
