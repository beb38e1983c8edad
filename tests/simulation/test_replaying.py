"""Dead letters are written before progress passes them, and replays send every one despite crashes (I12)."""

from collections.abc import Sequence

import pytest

from braid.kernel.envelope import encode
from braid.kernel.progress.fields import EnvelopeFields
from testbed.checkers import Checker, check, facts
from testbed.checkers.facts import Fact, LogId, Place
from testbed.checkers.letters import LettersFirst, WholeReplays
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants_letters import CUT_SHORT, CUTS, FAULTS, REPLAYS
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.seeds import seeds

MORE: Sequence[str] = (
    *("kill-dlq",) * 4,
    *("kill-cluster", "pause-cluster", "move-stream", "kill-producer", "slow-appends", "late-append"),
)


@pytest.mark.parametrize("seed", seeds(4))
def test_replays_send_every_letter_under_faults(seed: int) -> None:
    result = run(Plan(seed, faults=(*FAULTS, *(MORE if seed % 2 else ())), **REPLAYS))
    assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
    assert all(each.held >= 2 for each in result.checkers if isinstance(each, WholeReplays))
    assert killed_at_work(result.trace)  # else it proves less than it says


@pytest.mark.slow
def test_letters_of_logs_cut_and_written_on_are_all_replayed() -> None:
    for seed in range(6):
        result = run(Plan(seed, faults=CUTS, **CUT_SHORT))
        assert result.green, "\n".join([f"seed {seed}", *result.trace[-40:], result.message])
        [replays] = [each for each in result.checkers if isinstance(each, WholeReplays)]
        if replays.held >= 2 and replays.shared_places:
            return
    pytest.fail("no two letters had one place: it proves nothing")


@pytest.mark.slow
def test_a_letter_marked_early_is_told_by_name() -> None:
    mutant = next(each for each in MUTANTS if each.name == "a dead letter marked before its acknowledgement")
    for seed in range(6):
        with mutant.at_work():
            found = [each.invariant for each in run(mutant.plan(seed), lines=1).found]
        if found:
            break
    assert found == ["I3 truthful commits", "I12 letters first"]


def killed_at_work(trace: Sequence[str]) -> bool:
    """Whether a dlq service died while a replay was under way."""
    under_way = False
    for line in trace:
        under_way = (under_way or " ReplayMade(" in line) and " ReplayEnded(" not in line
        if under_way and " KILL dlq" in line:
            return True
    return False


# --- what the checkers see

LOG = LogId("east", "braid.logs.live.1", 0)
DLQ = "braid.logs.dlq.1"


def at(offset: int) -> Place:
    return Place(*LOG, offset)


def letter(offset: int, value: bytes = b"", topic: str = DLQ) -> Fact:
    """The copy of the record at an offset, which lies at the same one in the dlq lane."""
    return facts.DeadLettered(value or b"%d" % offset, "g", at(offset), Place("east", topic, 0, offset))


def committed(base: int) -> Fact:
    written = encode(EnvelopeFields(base))
    return facts.Committed("g", LOG, written.offset, written.metadata)


def red(checker: Checker, journal: Sequence[Fact]) -> bool:
    return bool(check([checker], journal))


def test_progress_past_a_letter_not_yet_written_is_noticed() -> None:
    failed: list[Fact] = [facts.Appended(at(0), b"0"), facts.Failed(b"0", "g", at(0))]
    assert red(LettersFirst(), [*failed, committed(1), letter(0)])
    assert not red(LettersFirst(), [*failed, letter(0), committed(1)])
    assert not red(LettersFirst(), [*failed, committed(0)])
    for settled in (facts.Processed(b"0", "g", at(0), 1), facts.Rejected(b"0", "g", at(0))):
        assert not red(LettersFirst(), [*failed, settled, failed[1], committed(1)])
    other = facts.Processed(b"0", "h", at(0), 1)
    assert red(LettersFirst(), [*failed, other, committed(1)])
    assert not red(LettersFirst(), [*failed, facts.Destroyed(LOG, 0, 1), committed(1)]), "another lies there by now"


def test_a_letter_that_is_not_what_it_says_is_seen() -> None:
    failed: list[Fact] = [facts.Appended(at(0), b"0"), facts.Failed(b"0", "g", at(0))]
    for wrong in (letter(1), letter(0, b"1"), letter(0, topic="braid.logs.bulk.1"), letter(0, topic="braid.own.dlq.1")):
        assert red(LettersFirst(), [*failed, wrong])


def sent(offset: int) -> Fact:
    return facts.Replayed(b"%d" % offset, "g", at(offset + 10))


def handled(offset: int) -> Fact:
    return facts.Processed(b"%d" % offset, "g", at(offset + 10), 1)


def moved(offset: int, skipped: int = 0) -> Fact:
    return facts.ReplayMoved("r", (1, 0, offset), skipped)


ASKED: Sequence[Fact] = (letter(0), letter(1), facts.ReplayAsked())
MADE = facts.ReplayMade("r", 2)
DONE = facts.ReplayEnded("r", "")
WHOLE: Sequence[Fact] = (*ASKED, MADE, sent(0), moved(0), sent(1), handled(0), handled(1), moved(1), DONE)


def test_a_replay_that_sends_all_is_whole() -> None:
    assert not red(WholeReplays("g"), WHOLE)
    assert not red(WholeReplays("g"), [*ASKED, MADE, sent(0), sent(0), sent(1), moved(1), handled(1), handled(0), DONE])
    later = [*WHOLE[:-1], letter(2), DONE]
    assert not red(WholeReplays("g"), later), "who asked did not know of it"
    assert not red(WholeReplays("g"), [*ASKED, facts.ReplayMade("r", 1), DONE]), "nobody holds it to anything"


@pytest.mark.parametrize("left_out", [sent(0), sent(1), handled(0), handled(1), DONE])
def test_a_replay_that_leaves_something_out_is_seen(left_out: Fact) -> None:
    assert red(WholeReplays("g"), [each for each in WHOLE if each != left_out])


def test_a_replay_that_moves_on_too_early_or_fails_is_seen() -> None:
    assert red(WholeReplays("g"), [*ASKED, MADE, moved(0), sent(0), sent(1), handled(0), handled(1), DONE])
    assert red(WholeReplays("g"), [*WHOLE[:-1], moved(1, skipped=1), DONE])
    assert red(WholeReplays("g"), [*WHOLE[:-1], facts.ReplayEnded("r", "its stream is gone")])
    assert red(WholeReplays("g"), [sent(0), sent(1), *ASKED, MADE, handled(0), handled(1), DONE]), "before it was asked"


def test_two_records_that_had_one_offset_are_two_letters() -> None:
    """Its log was cut between them: the second is not a copy of the first."""
    second = facts.DeadLettered(b"1", "g", at(0), Place("east", DLQ, 0, 1))
    asked: list[Fact] = [letter(0), second, facts.ReplayAsked(), facts.ReplayMade("r", 2)]
    assert red(WholeReplays("g"), [*asked, sent(0), handled(0), DONE])
    assert not red(WholeReplays("g"), [*asked, sent(0), sent(1), handled(0), handled(1), DONE])


def test_two_records_of_one_value_are_sent_twice() -> None:
    again = facts.DeadLettered(b"0", "g", at(5), Place("west", DLQ, 0, 0))
    journal: list[Fact] = [*ASKED[:2], again, facts.ReplayAsked(), facts.ReplayMade("r", 3)]
    every = [sent(0), sent(1), handled(0), handled(1)]
    assert red(WholeReplays("g"), [*journal, *every, DONE])
    assert not red(WholeReplays("g"), [*journal, sent(0), *every, DONE])
