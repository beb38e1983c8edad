"""The progress tracker agrees with a model made of plain sets, and a tracker that forgets does not."""

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from braid.kernel.progress import delivered as delivered_records
from braid.kernel.progress.ranges import Ranges
from braid.kernel.progress.tracker import Progress
from tests.support.examples import examples

HORIZON = 400


class Model(RuleBasedStateMachine):
    """Drives a tracker and plain sets side by side, with restores in between."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress(0)
        self.fetched = 0
        self.open: set[int] = set()
        self.claimed: set[int] = set()
        self.known: set[int] = set()
        self.rejected: set[int] = set()
        self.tried: dict[int, int] = {}

    def _pass(self, end: int) -> None:
        self.claimed |= set(range(self.fetched, end)) - self.open
        self.fetched = max(self.fetched, end)

    @rule(skip=st.integers(0, 2), count=st.integers(1, 6))
    def deliver(self, skip: int, count: int) -> None:
        for offset in range(self.fetched + skip, min(self.fetched + skip + count, HORIZON)):
            self._pass(offset)
            expected = offset not in self.claimed
            assert self.progress.deliver(offset, offset * 3) == expected
            self._pass(offset) if not expected else self._open(offset)

    def _open(self, offset: int) -> None:
        self.open.add(offset)
        self.known.add(offset)
        self.fetched = offset + 1

    @rule(ahead=st.integers(0, 5), length=st.integers(1, 4))
    def undeliverable(self, ahead: int, length: int) -> None:
        start, end = self.fetched + ahead, self.fetched + ahead + length
        self.progress.undeliverable(start, end)
        self.claimed |= set(range(start, end))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(["done", "reject", "many"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        offset = data.draw(st.sampled_from(sorted(self.open)))
        acts: dict[str, Callable[[int], object]] = {
            "done": self.progress.done,
            "reject": self.progress.reject,
            "many": lambda one: self.progress.done_many(np.array([one])),
        }
        assert acts[how](offset)
        self.open.discard(offset)
        self.claimed.add(offset)
        if how == "reject":
            self.rejected.add(offset)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def attempt(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.open)))
        self.tried[offset] = self.tried.get(offset, 0) + 1
        assert self.progress.attempt(offset) == self.tried[offset]

    @precondition(lambda self: self.known)
    @rule(data=st.data(), together=st.booleans())
    def finish_some(self, data: st.DataObject, together: bool) -> None:
        """Several at once, done ones among them: neighbours, which are found by their first and last, or any."""
        known = sorted(self.known)
        first = data.draw(st.integers(0, len(known) - 1))
        chosen = known[first : first + data.draw(st.integers(1, 8))]
        offsets = chosen if together else data.draw(st.permutations(chosen))
        newly = self.open.intersection(offsets)
        done = self.progress.done_many(np.array(offsets)) if together else self.progress.done_some(offsets)
        assert done == len(newly)
        self.open -= newly
        self.claimed |= newly

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.known)))
        if offset not in self.open:
            assert not self.progress.done(offset)

    @rule(start=st.integers(0, HORIZON), length=st.integers(0, 20))
    def expire(self, start: int, length: int) -> None:
        span = set(range(start, start + length))
        assert self.progress.expire(start, start + length) == Ranges.of_offsets(span - self.claimed)
        self.claimed |= span
        self.open -= span

    @rule()
    def restart(self) -> None:
        self.progress = Progress.restore(self.progress.snapshot())
        self.fetched = self.progress.base
        self.open.clear()
        self.known.clear()

    @invariant()
    def agrees(self) -> None:
        snapshot = self.progress.snapshot()
        while self.fetched in self.claimed:
            self.fetched += 1
        base = min([*self.open, self.fetched])
        assert snapshot.base == base
        claims = {offset for start, end in snapshot.claims for offset in range(start, end)}
        assert claims == self.claimed
        assert self.progress.in_flight == len(self.open)
        assert self.progress.unfinished().tolist() == sorted(self.open)
        oldest = min(self.open, default=None)
        assert self.progress.oldest_unfinished() == (None if oldest is None else (oldest, oldest * 3))
        assert all(self.progress.is_done(offset) == (offset in self.claimed) for offset in range(self.fetched + 8))
        self.tried = {offset: count for offset, count in self.tried.items() if offset not in self.claimed}
        assert {each.offset: each.attempts for each in snapshot.attempts} == self.tried
        assert snapshot.rejected.clip(base, HORIZON * 2) == Ranges.of_offsets(o for o in self.rejected if o >= base)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(30), stateful_step_count=40)


class ForgetfulModel(Model):
    """The same, where what is finished is dropped as soon as it is as much as what is not."""

    def __init__(self) -> None:
        super().__init__()
        self.least = patch.object(delivered_records, "_COMPACT_AT", 1)
        self.least.start()

    def teardown(self) -> None:
        self.least.stop()


TestForgetfulModel = ForgetfulModel.TestCase
TestForgetfulModel.settings = settings(max_examples=examples(30), stateful_step_count=40)
