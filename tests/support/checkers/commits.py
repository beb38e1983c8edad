"""I3 truthful commits and I10 envelopes that read back: every stored commit against what is really done."""

from collections.abc import Iterator

from braid.kernel.envelope import Kind
from braid.kernel.errors import BraidError
from braid.kernel.progress_fields import EnvelopeFields
from tests.support.checkers.checking import Instant
from tests.support.checkers.done import HEEDS, DoneOffsets
from tests.support.checkers.envelopes import read, stated
from tests.support.checkers.facts import Committed, Expired, Fact, LogId


class TruthfulCommits(Instant):
    """I3: at every instant, what a stored commit claims is done.

    Done is what sink or dlq lane hold, what no application could be given, what a stored commit states as rejected
    (and a handler did reject), and what left the log.
    """

    invariant = "I3 truthful commits"
    heeds = (*HEEDS, Expired, Committed)

    def __init__(self) -> None:
        self._done = DoneOffsets()
        self._starts: dict[LogId, int] = {}
        self._stated: dict[tuple[str, LogId], set[int]] = {}
        self._proven: dict[tuple[str, LogId], int] = {}
        self.stale = 0
        self._bases: dict[tuple[str, LogId], int] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        self._done.see(fact)
        match fact:
            case Expired(log=log, start=start):
                self._starts[log] = max(start, self._starts.get(log, 0))
            case Committed():
                yield from self._committed(fact)
            case _:
                pass

    def _committed(self, commit: Committed) -> Iterator[str]:
        try:
            found = list(stated(commit))
        except BraidError as error:
            yield f"{commit.group} points in {commit.log} to what is not its record: {error}"
            return
        for fields in found:
            yield from self._true(commit, fields)

    def _true(self, commit: Committed, fields: EnvelopeFields) -> Iterator[str]:
        key = commit.group, commit.log
        yield from self._state_rejected(commit, fields)
        end = self._done.ends.get(commit.log, 0)
        for start, stop in fields.claims:
            if stop > end:
                yield f"{commit.group} claims {commit.log} up to {stop}, which ends at {end}"
            for offset in range(max(start, self._proven.get(key, 0)), min(stop, end)):
                if not self._is_done(commit, offset):
                    yield f"{commit.group} claims offset {offset} of {commit.log}, which is not done"
                    return
        self._proven[key] = max(self._proven.get(key, 0), fields.base)
        if commit.offset < self._bases.get(key, 0):
            self.stale += 1
        self._bases[key] = commit.offset

    def _state_rejected(self, commit: Committed, fields: EnvelopeFields) -> Iterator[str]:
        stated = self._stated.setdefault((commit.group, commit.log), set())
        for start, stop in fields.rejected:
            for offset in range(start, stop):
                if self._done.rejected(commit.group, commit.log, offset):
                    stated.add(offset)
                else:
                    yield f"{commit.group} states offset {offset} of {commit.log} as rejected; no handler did that"

    def _is_done(self, commit: Committed, offset: int) -> bool:
        if offset < self._starts.get(commit.log, 0) or offset in self._stated[commit.group, commit.log]:
            return True
        return self._done.done(commit.group, commit.log, offset)


class ReadableEnvelopes(Instant):
    """I10: whatever is stored as commit metadata reads back as an envelope of ours, or is empty."""

    invariant = "I10 envelope"
    heeds = (Committed,)

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, Committed):
            decoded = read(fact)
            if decoded.kind not in (Kind.ENVELOPE, Kind.NONE):
                yield f"the commit of {fact.group} in {fact.log} does not read back: {decoded.reason}"
            elif decoded.fields.base != fact.offset:
                yield f"the commit of {fact.group} in {fact.log} says {decoded.fields.base} beside {fact.offset}"
