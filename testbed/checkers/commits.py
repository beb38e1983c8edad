"""I3, truthful commits, and I10, readable envelopes: every stored commit against what is really done."""

from collections.abc import Iterator

from braid.kernel.envelope import MetadataKind
from braid.kernel.errors import BraidError
from braid.kernel.progress.fields import EnvelopeFields
from testbed.checkers.checking import Instant
from testbed.checkers.done import HEEDS, DoneOffsets
from testbed.checkers.envelopes import read, stated
from testbed.checkers.facts import Committed, Destroyed, Expired, Fact, LogId


class TruthfulCommits(Instant):
    """I3: at every instant, everything that a stored commit claims is done.

    A record is done if a sink or the dlq lane holds it, if no application could receive it, if a stored commit states
    it as rejected (and a handler did reject it), or if it left the log.

    A claim is about records, not offsets. A commit with a leader epoch says nothing about records of later leaders:
    beyond its epoch, its claims are about records that the log has lost. A commit without an epoch is about the present
    records.
    """

    invariant = "I3 truthful commits"
    heeds = (*HEEDS, Expired, Committed)  # `Destroyed` among them

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
            case Destroyed(log=log, first=first):
                self._forget(log, first)
            case Expired(log=log, start=start):
                self._starts[log] = max(start, self._starts.get(log, 0))
            case Committed():
                yield from self._committed(fact)
            case _:
                pass

    def _forget(self, log: LogId, first: int) -> None:
        """Forgets what was proved about lost records: it proves nothing about those at the same offsets now."""
        for key in [key for key in self._proven if key[1] == log]:
            self._proven[key] = min(self._proven[key], first)
        for key in [key for key in self._stated if key[1] == log]:
            self._stated[key] = {offset for offset in self._stated[key] if offset < first}

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
        lost = self._lost_from(commit)
        for start, stop in fields.claims:
            if stop > end:
                yield f"{commit.group} claims {commit.log} up to {stop}, which ends at {end}"
            for offset in range(max(start, self._proven.get(key, 0)), min(stop, end)):
                known = self._was_done(commit, offset) if offset >= lost else self._is_done(commit, offset)
                if not known:
                    yield f"{commit.group} claims offset {offset} of {commit.log}, which is not done"
                    return
        self._proven[key] = max(self._proven.get(key, 0), min(fields.base, lost))
        if commit.offset < self._bases.get(key, 0):
            self.stale += 1
        self._bases[key] = commit.offset

    def _state_rejected(self, commit: Committed, fields: EnvelopeFields) -> Iterator[str]:
        stated, lost = self._stated.setdefault((commit.group, commit.log), set()), self._lost_from(commit)
        for start, stop in fields.rejected:
            for offset in range(start, stop):
                if offset < lost and self._done.rejected(commit.group, commit.log, offset):
                    stated.add(offset)
                elif offset < lost or not self._done.was_rejected(commit.group, commit.log, offset):
                    yield f"{commit.group} states offset {offset} of {commit.log} as rejected; no handler did that"

    def _lost_from(self, commit: Committed) -> int:
        """The offset from which a commit is about lost records: the log ends there, or has other records since."""
        epoch = known_epoch(commit)
        later = None if epoch < 0 else self._done.later_start(commit.log, epoch)
        end = self._done.tails.get(commit.log, 0)
        return end if later is None else min(later, end)

    def _was_done(self, commit: Committed, offset: int) -> bool:
        gone = offset < self._starts.get(commit.log, 0)
        return gone or self._done.was_done(commit.group, commit.log, offset)

    def _is_done(self, commit: Committed, offset: int) -> bool:
        if offset < self._starts.get(commit.log, 0) or offset in self._stated[commit.group, commit.log]:
            return True
        return self._done.done(commit.group, commit.log, offset)


def known_epoch(commit: Committed) -> int:
    """The newest leader epoch of a commit, as its readers take it; -1 if it has none."""
    stated = read(commit).fields.fingerprint
    if commit.leader_epoch >= 0 or stated is None:
        return commit.leader_epoch
    return stated.leader_epoch


class ReadableEnvelopes(Instant):
    """I10: all stored commit metadata reads back as an envelope of ours, or is empty."""

    invariant = "I10 envelope"
    heeds = (Committed,)

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, Committed):
            decoded = read(fact)
            if decoded.kind not in (MetadataKind.ENVELOPE, MetadataKind.NONE):
                yield f"the commit of {fact.group} in {fact.log} does not read back: {decoded.reason}"
            elif decoded.fields.base != fact.offset:
                yield f"the commit of {fact.group} in {fact.log} says {decoded.fields.base} beside {fact.offset}"
