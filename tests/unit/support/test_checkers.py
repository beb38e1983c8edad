"""Every checker turns red over the smallest journal that violates its invariant, and stays green one fact away."""

from collections.abc import Sequence

import pytest

from braid.kernel.decider import Context
from braid.kernel.envelope import encode
from braid.kernel.offset_ranges import OffsetRange
from braid.kernel.ports import HistoryId
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from services.assigner.model.events import FencingWaived, GroupDeleted
from services.assigner.reconciler.group_loop import GROUPS
from testbed.checkers import Checker, check, facts
from testbed.checkers.commits import ReadableEnvelopes, TruthfulCommits
from testbed.checkers.delivery import HonestReceipts, NoPhantom, ZeroLoss
from testbed.checkers.drains import SafeDrains
from testbed.checkers.epochs import OneLeaderAtATime, RisingEpochs
from testbed.checkers.facts import Fact, Place
from testbed.checkers.fencing import FencedCommits
from testbed.checkers.folding import OneFold
from testbed.checkers.losses import ExactLosses
from testbed.checkers.resets import KeptResets
from testbed.checkers.retention import RETENTION_SECONDS, KeptTopics
from testbed.checkers.stores import GapFreeWatches, HonestAppends

LOG = facts.LogId("east", "braid.logs.live.1", 0)
TOPIC = facts.Topic("east", "braid.logs.live.1")
HISTORY = HistoryId("assigner", "group", "g")


def at(offset: int) -> Place:
    return Place(*LOG, offset)


def appended(*values: bytes) -> list[Fact]:
    return [facts.Appended(at(offset), value) for offset, value in enumerate(values)]


def committed(fields: EnvelopeFields) -> Fact:
    written = encode(fields)
    return facts.Committed("g", LOG, written.offset, written.metadata)


def processed(offset: int, value: bytes = b"a") -> Fact:
    return facts.Processed(value, "g", at(offset), 1)


def red(checker: Checker, journal: Sequence[Fact]) -> bool:
    return bool(check([checker], journal))


def test_loss_is_seen_until_every_group_has_settled_the_record() -> None:
    sent: list[Fact] = [facts.Acknowledged(b"a", at(0))]
    assert red(ZeroLoss(["g"]), sent)
    assert not check([ZeroLoss(["g"])], sent, quiescent=False)
    for settled in (processed(0), facts.Rejected(b"a", "g", at(0)), facts.DeadLettered(b"a", "g", at(0))):
        assert not red(ZeroLoss(["g"]), [*sent, settled])
        assert red(ZeroLoss(["g", "h"]), [*sent, settled])


def test_a_record_nobody_sent_is_seen() -> None:
    assert red(NoPhantom(), [processed(0)])
    assert not red(NoPhantom(), [facts.Sent(b"a"), processed(0)])


def test_a_receipt_for_what_is_not_there_is_seen() -> None:
    assert red(HonestReceipts(), [facts.Acknowledged(b"a", at(0))])
    assert red(HonestReceipts(), [*appended(b"b"), facts.Acknowledged(b"a", at(0))])
    assert not red(HonestReceipts(), [*appended(b"a"), facts.Acknowledged(b"a", at(0))])


def cut_and_written_on(*, epoch: int) -> list[Fact]:
    """Two records are done and committed under a leader; one is lost, and a later leader writes another there."""
    written = encode(EnvelopeFields(2))
    return [
        *(facts.Appended(at(offset), b"%d" % offset, leader_epoch=1) for offset in range(2)),
        *(processed(offset, b"%d" % offset) for offset in range(2)),
        facts.Committed("g", LOG, written.offset, written.metadata, leader_epoch=1),
        facts.Destroyed(LOG, 1, 2),
        facts.Committed("g", LOG, written.offset, written.metadata, leader_epoch=epoch),
        facts.Appended(at(1), b"new", leader_epoch=2),
        facts.Committed("g", LOG, written.offset, written.metadata, leader_epoch=epoch),
    ]


def test_a_claim_on_what_was_written_on_after_a_cut_is_seen() -> None:
    """The work done on a lost record, and the bases proved by it, say nothing about the record that lies there."""
    assert not red(TruthfulCommits(), cut_and_written_on(epoch=1))
    assert red(TruthfulCommits(), cut_and_written_on(epoch=2))
    assert red(TruthfulCommits(), cut_and_written_on(epoch=-1))
    assert not red(TruthfulCommits(), [*cut_and_written_on(epoch=1), processed(1, b"new"), _claims_all()])
    assert red(TruthfulCommits(), [*cut_and_written_on(epoch=1), processed(1, b"1"), _claims_all()])


def test_a_record_done_after_it_was_lost_is_no_untrue_claim() -> None:
    """Nothing lies there yet, so nothing else can be meant."""
    journal = cut_and_written_on(epoch=1)
    late = [each for each in journal if each != processed(1, b"1") and not isinstance(each, facts.Committed)]
    lost = next(at for at, each in enumerate(late) if isinstance(each, facts.Destroyed))
    written = encode(EnvelopeFields(2))
    claim = facts.Committed("g", LOG, written.offset, written.metadata, leader_epoch=1)
    assert not red(TruthfulCommits(), [*late[: lost + 1], processed(1, b"1"), claim, *late[lost + 1 :], claim])
    assert red(TruthfulCommits(), [*late[: lost + 1], claim])


def _claims_all() -> Fact:
    written = encode(EnvelopeFields(2))
    return facts.Committed("g", LOG, written.offset, written.metadata, leader_epoch=2)


def test_a_commit_under_an_old_epoch_is_seen_unless_unfenced() -> None:
    later, earlier = committed(EnvelopeFields(2, epoch=7)), committed(EnvelopeFields(1, epoch=6))
    assert red(FencedCommits(), [later, earlier])
    assert not red(FencedCommits(), [earlier, later, later])
    for cluster, is_red in (("east", False), ("west", True)):
        waived = GROUPS.codec.encode(FencingWaived(cluster), Context(1, "assigner-0"))
        fact = facts.BatchAppended(HISTORY, 1, (waived,), 1)
        assert red(FencedCommits(), [fact, later, earlier]) is is_red


def test_a_claim_of_undone_work_is_seen() -> None:
    log = appended(b"a", b"b", b"c")
    assert red(TruthfulCommits(), [*log, committed(EnvelopeFields(1))])
    assert not red(TruthfulCommits(), [*log, processed(0), committed(EnvelopeFields(1))])
    beyond = EnvelopeFields(1, Ranges([(2, 3)]))
    assert red(TruthfulCommits(), [*log, processed(0), committed(beyond)])
    assert not red(TruthfulCommits(), [*log, processed(0), processed(2), committed(beyond)])


def test_a_claim_beyond_the_log_is_seen() -> None:
    assert red(TruthfulCommits(), [*appended(b"a"), processed(0), processed(1), committed(EnvelopeFields(2))])


def test_rejects_count_when_stated_and_only_when_made() -> None:
    log = appended(b"a", b"b")
    stated = committed(EnvelopeFields(1, rejected=Ranges([(0, 1)])))
    rejected = facts.Rejected(b"a", "g", at(0))
    assert red(TruthfulCommits(), [*log, stated])
    assert red(TruthfulCommits(), [*log, rejected, committed(EnvelopeFields(1))])
    assert not red(TruthfulCommits(), [*log, rejected, stated, committed(EnvelopeFields(1))])


def test_expired_and_undeliverable_records_count_as_done() -> None:
    assert not red(TruthfulCommits(), [*appended(b"a"), facts.Expired(LOG, 1), committed(EnvelopeFields(1))])
    canary = facts.Appended(at(0), b"canary", deliverable=False)
    assert not red(TruthfulCommits(), [canary, committed(EnvelopeFields(1))])


def test_stale_commits_are_counted() -> None:
    checker = TruthfulCommits()
    log = [*appended(b"a", b"b"), processed(0), processed(1)]
    assert not red(checker, [*log, committed(EnvelopeFields(2)), committed(EnvelopeFields(1))])
    assert checker.stale == 1


def test_metadata_that_does_not_read_back_is_seen() -> None:
    written = encode(EnvelopeFields(3))
    assert not red(ReadableEnvelopes(), [facts.Committed("g", LOG, 3, written.metadata)])
    assert not red(ReadableEnvelopes(), [facts.Committed("g", LOG, 3, "")])
    assert red(ReadableEnvelopes(), [facts.Committed("g", LOG, 2, written.metadata)])
    assert red(ReadableEnvelopes(), [facts.Committed("g", LOG, 3, "another tool's")])


def test_epochs_that_do_not_rise_are_seen() -> None:
    def grant(epoch: int, group: str = "g") -> Fact:
        return facts.LeaseGranted(group, "l", "m", epoch, 0)

    assert not red(RisingEpochs(), [grant(1), grant(2), grant(1, "h")])
    assert red(RisingEpochs(), [grant(1), grant(1)])
    assert red(RisingEpochs(), [grant(1), grant(3), grant(2)])


def test_a_leader_that_was_replaced_and_writes_is_seen() -> None:
    old, new = facts.EventDecided("registry", 1, 1), facts.EventDecided("registry", 2, 2)
    assert not red(OneLeaderAtATime(), [old, new, facts.EventDecided("assigner", 1, 1)])
    assert red(OneLeaderAtATime(), [old, new, old])
    assert red(OneLeaderAtATime(), [facts.EventDecided("registry", 1, 2)])


@pytest.mark.parametrize(
    ("reported", "carried_out", "wrong"),
    [("appended", 1, False), ("appended", 0, True), ("appended", 2, True), ("refused", 0, False),
     ("refused", 1, True), ("unknown", 0, False), ("unknown", 1, False), ("unknown", 2, True)],
)  # fmt: skip
def test_appends_reported_otherwise_than_done_are_seen(reported: str, carried_out: int, wrong: bool) -> None:
    assert red(HonestAppends(), [facts.AppendAnswered(HISTORY, reported, carried_out)]) is wrong


def test_watches_that_miss_repeat_or_swap_are_seen() -> None:
    log: list[Fact] = [facts.BatchAppended(HISTORY, first, (b"",), first) for first in (1, 2, 3)]

    def watched(*firsts: int) -> list[Fact]:
        return [*log, *(facts.BatchWatched(1, "assigner", 1, first, HISTORY, first) for first in firsts)]

    assert not red(GapFreeWatches(), watched(2, 3))
    for wrong in ((3,), (2, 2), (1, 2), (3, 2)):
        assert red(GapFreeWatches(), watched(*wrong))


def test_states_that_differ_from_their_events_are_seen() -> None:
    def batch(first: int) -> Fact:
        event = GROUPS.codec.encode(GroupDeleted(), Context(5, "operator"))
        return facts.BatchAppended(HISTORY, first, (event,), first)

    kinds = {("assigner", "group"): GROUPS}
    state = GROUPS.decider.evolve(GROUPS.decider.initial("g"), GroupDeleted(), Context(5, "operator"))
    right = facts.Folded("assigner-0", HISTORY, 1, GROUPS.codec.encode_state(state))
    assert not red(OneFold(kinds), [batch(1), right])
    assert red(OneFold(kinds), [batch(1), facts.Folded("assigner-0", HISTORY, 1, b"{}")])
    assert red(OneFold(kinds), [batch(1), facts.Folded("assigner-0", HISTORY, 2, right.state)])
    assert red(OneFold(kinds), [batch(1), batch(3)])


def drain(*, refuses: bool = True, ends: int = 1, work: Sequence[Fact] = (), late: Sequence[Fact] = ()) -> list[Fact]:
    return [
        facts.Subscribed("g", "live"),
        *appended(b"a"),
        facts.SealRecorded(TOPIC, refuses),
        facts.EndsRecorded(TOPIC, (ends,)),
        *work,
        facts.DrainRecorded(TOPIC, "live"),
        *late,
    ]


def test_a_drain_that_swallows_a_reset_is_seen() -> None:
    asked, again = facts.ResetAsked("g", TOPIC, (0,)), facts.HandlerStarted("g", "m", LOG, 2, 0)
    drained = facts.DrainRecorded(TOPIC, "live")

    def swallowed(after: float, *between: Fact) -> bool:
        now = iter([0.0, after, after])
        return red(KeptResets(lambda: next(now)), [*appended(b"a"), processed(0), asked, *between, drained])

    assert swallowed(1.0)
    assert not swallowed(1.0, again)
    assert not swallowed(0.1), "that counts as one of a drained channel"
    assert not swallowed(1.0, facts.ResetAsked("g", TOPIC, (-1,)), again)


def test_a_drained_topic_that_is_deleted_early_is_seen() -> None:
    def early(after: float) -> bool:
        now = iter([5.0, 5.0 + after])
        return red(KeptTopics(lambda: next(now)), [facts.DrainRecorded(TOPIC, "live"), facts.TopicDeleted(TOPIC)])

    assert early(RETENTION_SECONDS - 1)
    assert not early(RETENTION_SECONDS)
    assert not red(KeptTopics(lambda: 0.0), [facts.TopicDeleted(TOPIC)]), "a spare"


def test_drains_that_strand_records_are_seen() -> None:
    done = [processed(0)]
    assert not red(SafeDrains(), drain(work=done))
    assert not red(SafeDrains(), drain(work=[facts.Rejected(b"a", "g", at(0))]))
    assert red(SafeDrains(), drain())
    assert red(SafeDrains(), drain(work=done, refuses=False))
    assert red(SafeDrains(), drain(work=done, ends=0))
    assert not red(SafeDrains(), drain(work=[*done, facts.EndsRecorded(TOPIC, (1,))], ends=0)), "it was read again"
    assert red(SafeDrains(), drain(work=done, ends=2))
    assert red(SafeDrains(), drain(work=done, late=[facts.Appended(at(1), b"late")]))
    assert red(SafeDrains(), [facts.EndsRecorded(TOPIC, ())])
    assert red(SafeDrains(), [facts.DrainRecorded(TOPIC, "live")])


def test_topics_that_rise_again_or_go_too_early_are_seen() -> None:
    made, gone = facts.TopicCreated(TOPIC), facts.TopicDeleted(TOPIC)
    assert not red(SafeDrains(), [made, *drain(work=[processed(0)]), gone])
    assert red(SafeDrains(), [made, *drain(work=[processed(0)]), gone, made])
    assert red(SafeDrains(), [made, facts.Appended(at(0), b"a"), gone])
    assert not red(SafeDrains(), [made, gone]), "a spare holds nothing"
    backup, restored = facts.StoreBackedUp(), facts.StoreRestored()
    assert not red(SafeDrains(), [backup, made, gone, restored, made]), "the restored store knows nothing of that spare"
    assert red(SafeDrains(), [backup, made, gone, made, restored])
    assert red(SafeDrains(), [made, backup, gone, restored, made]), "it knows of this one"
    assert red(SafeDrains(), [backup, made, *drain(work=[processed(0)]), gone, restored, made]), "it held a record"


def lossy(told: int, acked: int = 3, *, given_up: int | None = None, drained: bool = False) -> list[Fact]:
    """Records 1 to 3 of four are gone; the registry tells of 1 to `told`, a person gives up 1 to `given_up`."""
    return [
        *(facts.Acknowledged(b"%d" % offset, at(offset)) for offset in range(acked + 1)),
        *([facts.DrainRecorded(TOPIC, "live")] if drained else []),
        facts.Destroyed(LOG, 1, 4),
        *([facts.LossRecorded(TOPIC, (OffsetRange(0, 1, told),))] if told else []),
        *([facts.GivenUp(TOPIC, (OffsetRange(0, 1, given_up),))] if given_up else []),
    ]


def test_losses_that_are_not_told_exactly_are_seen() -> None:
    assert not red(ExactLosses(), lossy(3, given_up=3))
    assert not red(ExactLosses(), lossy(2, acked=2, given_up=2)), "what nobody has a receipt for need not be told"
    assert not red(ExactLosses(), lossy(0, drained=True)), "everything in it was done"
    assert not red(ExactLosses(), [facts.LossRecorded(TOPIC, (OffsetRange(0, 0, -1),))]), "nobody has a receipt"
    assert red(ExactLosses(), lossy(0)), "a base that is trusted after a truncation says nothing"
    assert red(ExactLosses(), lossy(2))
    assert red(ExactLosses(), lossy(4))
    assert red(ExactLosses(), lossy(-1)), "receipts say where it ended"
    assert not red(ExactLosses(producers_die=True), lossy(-1)), "they may die before they told anybody"
    assert red(ExactLosses(producers_die=True), lossy(2))
    led: list[facts.Fact] = [facts.EventDecided("registry", epoch, epoch) for epoch in (1, 2)]
    assert not red(ExactLosses(), [*led, *lossy(-1)]), "who leads now does not know who had died before"
    assert red(ExactLosses(), [*led, *lossy(2)]), "then it may not name an end"
    assert red(ExactLosses(), [*led[:1], facts.EventDecided("assigner", 2, 2), *lossy(-1)]), "it led throughout"
    assert red(ExactLosses(), lossy(3, given_up=2))
    assert red(ExactLosses(), [facts.LossRecorded(TOPIC, (OffsetRange(0, 0, 1),))])
    twice: list[facts.Fact] = [facts.Destroyed(LOG, 0, 1), facts.LossRecorded(TOPIC, (OffsetRange(0, 0, 3),))]
    assert not red(ExactLosses(), [*lossy(3), *twice])


def test_reports_since_a_backup_are_due_again_after_its_restore() -> None:
    told = facts.LossRecorded(TOPIC, (OffsetRange(0, 1, 3),))
    backup, restore = facts.StoreBackedUp(), facts.StoreRestored()
    settled = [processed(offset, b"%d" % offset) for offset in range(1)]
    for checker in (ExactLosses, lambda: ZeroLoss(["g"])):
        assert not red(checker(), [*settled, *lossy(3), backup, restore]), "the backup knows it"
        assert red(checker(), [*settled, backup, *lossy(3), restore]), "nobody knows it any more"
        assert not red(checker(), [*settled, backup, *lossy(3), restore, told])
    assert red(ZeroLoss(["g"]), [*settled, backup, *lossy(3, given_up=3), restore])
    drained = [backup, *lossy(0, drained=True), restore]
    assert not red(ExactLosses(), drained), "everything in it was done"
    assert not red(ExactLosses(), [*drained, told]), "nobody knows that any more"
    assert red(ExactLosses(), [*lossy(0, drained=True), backup, restore, told]), "the backup knows it"


def test_only_what_was_given_up_by_name_may_be_missing() -> None:
    acked = [facts.Acknowledged(b"%d" % offset, at(offset)) for offset in range(3)]
    given_up = facts.GivenUp(TOPIC, (OffsetRange(0, 1, 2),))
    assert not red(ZeroLoss(["g"]), [*acked, processed(0, b"0"), given_up])
    assert red(ZeroLoss(["g"]), [*acked, given_up])
    assert red(ZeroLoss(["g"]), [*acked, processed(0, b"0"), facts.GivenUp(TOPIC, (OffsetRange(1, 1, 2),))])


def test_records_placed_where_a_log_was_cut_are_not_lost() -> None:
    again = [*lossy(3), facts.Acknowledged(b"new", at(2))]
    given_up = facts.GivenUp(TOPIC, (OffsetRange(0, 1, 3),))
    assert not red(ExactLosses(), [*again, given_up])
    assert red(ExactLosses(), [*lossy(2), facts.Acknowledged(b"new", at(3))]), "the one before is gone"
    assert not red(ZeroLoss(["g"]), [*again, processed(0, b"0"), processed(2, b"new"), given_up])
    assert red(ZeroLoss(["g"]), [*again, processed(0, b"0"), given_up]), "the new one is there"
    assert not red(ZeroLoss(["g"]), [*again, processed(0, b"0"), facts.Destroyed(LOG, 2, 3), given_up]), "lost, too"


def test_a_log_that_lost_its_end_ends_where_it_was_cut() -> None:
    cut = [*appended(b"a", b"b"), facts.Destroyed(LOG, 1, 2), facts.SealRecorded(TOPIC, True)]
    assert not red(SafeDrains(), [*cut, facts.EndsRecorded(TOPIC, (1,))])
    assert red(SafeDrains(), [*cut, facts.EndsRecorded(TOPIC, (2,))])
