"""`doctor`'s findings on kept lag: each thing that makes it end early is told with its remedy."""

import pytest

from braid.api.lagmon.v1.lag_history_pb2 import KeptLagStatus
from braid.api.lagmon.v1.lagmon_service_pb2 import ListLagHistoryResponse
from braid.cli.doctor.findings import Level
from braid.cli.doctor.kept_lag_findings import KeptLagFacts, check_kept_lag
from services.lagmon.kept.files import MemoryFiles
from services.lagmon.kept.store import KeptStore
from services.lagmon.servicer.history import kept_status
from tests.unit.cli.mesh import virtual
from tests.unit.cli.resources.lag.test_listing import with_lagmon

MB = 1_000_000


@pytest.mark.parametrize(
    ("status", "trouble", "level", "said", "remedy"),
    [
        ({}, "", Level.OK, "lag is kept on disk (12.0 of 500 MB)", ""),
        ({"in_memory": True}, "", Level.WARN, "lag is kept in memory, and ends with the process", "BRAID_KEPT_LAG to"),
        (
            {"dropped_files": 3},
            "",
            Level.WARN,
            "3 files went for want of room (12.0 of 500 MB)",
            "BRAID_KEPT_LAG_BYTES",
        ),
        ({"dropped_files": 3, "in_memory": True}, "", Level.WARN, "3 files went for want of room", "BRAID_KEPT_LAG to"),
        ({"dropped_files": 3}, "no room", Level.WARN, "no room", "make room on that disk"),
    ],
)
def test_what_ends_kept_lag_early_is_told(
    status: dict[str, int], trouble: str, level: Level, said: str, remedy: str
) -> None:
    kept = KeptLagStatus(size_bytes=12 * MB, limit_bytes=500 * MB, **status)  # type: ignore[arg-type]
    found = check_kept_lag(KeptLagFacts("lagmon-0", kept, trouble))
    assert (found.name, found.check, found.level) == ("lagmon-0", "kept lag", level)
    assert said in found.message
    assert remedy in found.remedy
    assert bool(found.remedy) is (level is not Level.OK)


def test_a_store_says_how_it_keeps() -> None:
    store = KeptStore(MemoryFiles(), 5 * MB)
    store.health.dropped = 2
    assert kept_status(store) == KeptLagStatus(in_memory=True, size_bytes=0, limit_bytes=5 * MB, dropped_files=2)


@virtual
async def test_each_replica_is_asked_and_an_older_one_says_nothing() -> None:
    shell = await with_lagmon()
    assert "kept lag" not in (await shell.braid("doctor")).out
    shell.lagmon.history = ListLagHistoryResponse(kept=KeptLagStatus(in_memory=True))
    told = (await shell.braid("doctor")).out
    assert "lag is kept in memory" in told
    assert "BRAID_KEPT_LAG" in told
