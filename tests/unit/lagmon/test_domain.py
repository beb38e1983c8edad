"""What lagmon knows of one cluster: which commits it takes in."""

from typing import NamedTuple

from braid.kernel.ids import ASIDE_GROUP
from services.lagmon.domain import ClusterModel


class Read(NamedTuple):
    """A commit as the offset log states it."""

    offset: int = 5
    metadata: str = ""
    commit_time_ms: int = 1_000


def test_progress_that_is_set_aside_is_nobodys_lag() -> None:
    known, aside = ClusterModel("east"), f"{ASIDE_GROUP}indexer"
    known.take(0, {("indexer", "logs", 0): Read(), (aside, "logs", 0): Read()}, heard_at=1.0)
    assert {key.group for key in known.progress} == {"indexer"}
    known.take(0, {(aside, "logs", 0): None}, heard_at=2.0)
    assert {key.group for key in known.progress} == {"indexer"}
