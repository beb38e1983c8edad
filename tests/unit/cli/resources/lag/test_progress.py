"""`describe lease` tells what of a partition is done, rejected and retried, as the group's newest commit states it."""

import json

from braid.api.lagmon.v1.progress_pb2 import OffsetSpan, Progress, RetriedRecord
from braid.cli.core.documents import to_document
from braid.cli.resources.lag.progress import committed_lines
from braid.kernel.errors import Unavailable
from tests.unit.cli.mesh import Shell, virtual

TOLD = Progress(
    committed_offset=10,
    commit_time_ms=1_000,
    has_envelope=True,
    epoch=7,
    done=[OffsetSpan(first=12, last=14), OffsetSpan(first=20, last=20)],
    rejected=[OffsetSpan(first=13, last=13)],
    retried=[RetriedRecord(offset=11, attempts=3)],
)


def test_each_kind_has_a_line_of_ranges() -> None:
    assert committed_lines(to_document(TOLD), 43_000) == [
        "progress:                 all before offset 10 is done, committed 42s ago",
        "done beyond it:           12-14, 20",
        "rejected:                 13",
        "retried:                  11 (3 failed)",
    ]


def test_many_ranges_are_counted_and_missing_ones_are_told() -> None:
    many = Progress(
        committed_offset=1,
        has_envelope=True,
        partial=True,
        done=[OffsetSpan(first=2 * n, last=2 * n) for n in range(1, 21)],
    )
    lines = committed_lines(to_document(many), 0)
    assert lines[1].endswith("2, 4, 6, 8, 10, 12, 14, 16 and 12 more")
    assert lines[-1].strip() == "there is more than this commit tells"


def test_an_offset_alone_claims_nothing_beyond_it() -> None:
    lines = committed_lines(to_document(Progress(committed_offset=5)), 0)
    assert "not known: the commit says nothing but the offset" in lines[1]


@virtual
async def test_a_lease_is_described_with_its_progress() -> None:
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    assert (await shell.braid("consume", "logs", "--group", "g", "--timeout", "2")).code == 0
    line = ("describe", "lease", "logs/live/1/0")
    assert "progress" not in (await shell.braid(*line)).out, "nothing is committed"
    shell.lagmon.progress = TOLD
    assert "all before offset 10 is done" in (await shell.braid(*line)).out
    document = json.loads((await shell.braid(*line, "-o", "json")).out)["progress"]
    assert document["retried"] == [{"offset": 11, "attempts": 3}]
    assert (document["group"], document["topic"]) == ("g", "braid.logs.live.1")
    shell.lagmon.progress = Unavailable("away")
    told = await shell.braid(*line)
    assert told.code == 0 and "its progress is not known: away" in told.err
