"""Commits of tests as the offset log's columns, and models that hold them."""

from collections.abc import Mapping, Sequence

import numpy as np

from braid.kafka.offset_log.commits import CommitColumns, OffsetPair
from braid.kernel.ports import TopicPartition
from services.lagmon.domain import ClusterModel
from services.lagmon.policy import LONG_AGO

Key = tuple[str, str, int]
Said = tuple[int, str] | None


def commits(found: Mapping[Key, Said], time_ms: int = 1_000) -> CommitColumns:
    """Offsets and metadata by group, topic and partition; None where a commit is gone."""
    keys = sorted(found)
    pairs = sorted({OffsetPair(*key[:2]) for key in keys})
    values = [found[key] for key in keys]
    return CommitColumns(
        pairs,
        np.array([pairs.index(OffsetPair(*key[:2])) for key in keys], np.int64),
        np.array([key[2] for key in keys], np.int64),
        np.array([value is None for value in values], np.bool_),
        np.array([value[0] if value else 0 for value in values], np.int64),
        np.full(len(keys), time_ms),
        [value[1].encode() if value else b"" for value in values],
    )


def model_of(
    found: Mapping[Key, Said],
    looks: Sequence[tuple[float, Mapping[TopicPartition, int]]] = (),
    heard_at: float = LONG_AGO,
    name: str = "east",
) -> ClusterModel:
    """A cluster whose offset log said so, and whose logs were looked at so."""
    model = ClusterModel(name)
    model.take(0, commits(found), heard_at)
    model.wanted()
    for at, ends in looks:
        model.observe(ends, at)
    return model
