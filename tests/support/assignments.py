"""Tells a test what fetchers of the twin are assigned."""

from collections.abc import Callable, Mapping

import pytest

from braid.kafka.memory.fetcher import MemoryFetcher
from braid.kernel.ports import NO_LANES, UNKNOWN_LOGS, FetchLane, KnownLog, TopicPartition


def watch_assignments(monkeypatch: pytest.MonkeyPatch, note: Callable[[Mapping[TopicPartition, int]], None]) -> None:
    """Has `note` called with the positions of each assignment, before it is made."""
    assign = MemoryFetcher.assign

    def noted(
        fetcher: MemoryFetcher,
        positions: Mapping[TopicPartition, int],
        lanes: Mapping[TopicPartition, FetchLane] = NO_LANES,
        known: Mapping[TopicPartition, KnownLog] = UNKNOWN_LOGS,
    ) -> None:
        note(positions)
        assign(fetcher, positions, lanes, known)

    monkeypatch.setattr(MemoryFetcher, "assign", noted)
