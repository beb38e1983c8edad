"""Facts of the mesh about each group and topic on a cluster: names, order, and which rows are shown. Pure."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.lagmon.columns.progress import Kind, PairName, ProgressColumns
from services.lagmon.model.lag import RowKey
from services.lagmon.model.mesh_view import Channel, GroupSubscription, MeshView, Presence

_Flags = NDArray[np.bool_]


class PairKey(NamedTuple):
    """The subject of the rows of a pair; pairs are sorted by it. Empty names where the topic is no channel."""

    group: str
    stream: str
    lane: str
    cluster: str
    topic: str

    def row(self, partition: int) -> RowKey:
        """Returns the key of the row of a partition; -1 for all of them."""
        return RowKey(self.group, self.stream, self.lane, self.cluster, self.topic, partition)


def pairs_of(keys: Sequence[PairKey], groups: Collection[str]) -> NDArray[np.int64]:
    """Returns the places of the pairs of some groups among sorted keys, in order."""
    found: list[int] = []
    at = 0
    for group in sorted(groups):
        at = bisect_left(keys, (group,), lo=at)
        while at < len(keys) and keys[at].group == group:
            found.append(at)
            at += 1
    return np.array(found, np.int64)


class _Fact(NamedTuple):
    shown: bool = False
    hides_envelopes: bool = False
    drained: bool = False
    registered: bool = False
    unattended: bool = False
    expected: bool = False


_NO_PAIR: Final = _Fact()


@dataclass(frozen=True, slots=True)
class PairFacts:
    """Facts by the number of a pair.

    Attributes:
        keys: All pairs in order.
        rank: The place of each pair in `keys`.
        stamps: Of each number, which of the pairs that had it this is about.
        shown: Whether its rows are shown.
        hides_envelopes: Whether its rows are left out where a member of Braid committed: the group was deleted.
        drained: Whether nothing is left for the group in the channel.
        registered, unattended: Whether the group is registered, and has no member.
        expected: Whether the group has rows where it never committed.
    """

    keys: Sequence[PairKey]
    rank: NDArray[np.int64]
    stamps: NDArray[np.int64]
    shown: _Flags
    hides_envelopes: _Flags
    drained: _Flags
    registered: _Flags
    unattended: _Flags
    expected: _Flags

    def shown_rows(self, known: ProgressColumns, rows: NDArray[np.int64]) -> _Flags:
        """Says which rows are shown; rows of pairs that are newer than these facts are not."""
        pairs, there = self._pairs(known, rows)
        if not len(self.stamps):
            return there
        has_envelope = known["kind"][rows] > Kind.PLAIN
        shown: _Flags = there & self.shown[pairs] & ~(self.hides_envelopes[pairs] & has_envelope)
        return shown

    def drained_rows(self, known: ProgressColumns, rows: NDArray[np.int64]) -> _Flags:
        """Says of which rows the channels hold nothing for the group; False for pairs that are newer."""
        pairs, there = self._pairs(known, rows)
        return there & self.drained[pairs] if len(self.stamps) else there

    def _pairs(self, known: ProgressColumns, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], _Flags]:
        """Returns the pair of each row, and whether these facts are about it; 0 where they are not."""
        pairs = known["pair"][rows]
        there: _Flags = pairs < len(self.stamps)
        pairs = np.where(there, pairs, 0)
        if len(self.stamps):
            there &= self.stamps[pairs] == known.pair_stamps[pairs]
        return pairs, there


def pair_facts(cluster: str, known: ProgressColumns, view: MeshView, missing: frozenset[str]) -> PairFacts:
    """Looks up all pairs in the mesh."""
    keys: list[tuple[PairKey, int]] = []
    each = [_NO_PAIR] * len(known.pairs)
    for number, pair in enumerate(known.pairs):
        if pair is None:
            continue
        channel, subscription = view.topics.get((cluster, pair.topic)), view.subscription(pair.group)
        each[number] = _fact(pair, channel, subscription, view, missing)
        stream, lane = (channel.stream, channel.lane) if channel is not None else ("", "")
        keys.append((PairKey(pair.group, stream, lane, cluster, pair.topic), number))
    keys.sort()
    facts = np.array(each, np.bool_).reshape(len(each), len(_Fact._fields))
    rank = np.zeros(len(known.pairs), np.int64)
    rank[[number for _, number in keys]] = np.arange(len(keys))
    stamps = known.pair_stamps[: len(known.pairs)].copy()
    return PairFacts([key for key, _ in keys], rank, stamps, *np.ascontiguousarray(facts.T))


def _fact(
    pair: PairName,
    channel: Channel | None,
    subscription: GroupSubscription | None,
    view: MeshView,
    missing: frozenset[str],
) -> _Fact:
    registered = subscription is not None
    unattended = subscription is not None and not subscription.attended
    if channel is None:
        return _Fact(pair.topic not in missing, registered=registered, unattended=unattended)
    lags_in = subscription is not None and subscription.lags_in(channel)
    return _Fact(
        shown=channel.presence is not Presence.RETIRED and (subscription is None or subscription.wants(channel)),
        hides_envelopes=not registered and view.groups is not None,
        drained=channel.presence is Presence.DRAINED and not lags_in,
        registered=registered,
        unattended=unattended,
        expected=lags_in,
    )
