"""`get pathways`: the way in names, latencies, and what makes the figures doubtful."""

import json

import pytest

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import pathway_pb2 as pb
from braid.cli.resources.pathways.listing import latency_text, way_text
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.lag.test_listing import with_lagmon


def point(stream: str, group: str = "", *, parent: int = 1, ms: float = 0.0) -> pb.PathwayPoint:
    """A point whose latencies are all the same."""
    same = pb.LatencyQuantiles(p50_ms=ms, p95_ms=ms, p99_ms=2 * ms)
    return pb.PathwayPoint(
        hash=7,
        parent_hash=parent,
        service="shop",
        stream=stream,
        group=group,
        full=same,
        edge=same,
        records_per_s=1200.04,
    )


def pathway(*points: pb.PathwayPoint, partial: bool = False) -> pb.Pathway:
    """A pathway of these points."""
    return pb.Pathway(name="00000000000000aa", points=points, partial=partial)


WHOLE = pathway(
    point("orders", parent=0),
    point("orders", "checkout", ms=250),
    point("payments", ms=450),
    point("payments", "spark", ms=1_240),
)


async def with_pathways(*pathways: pb.Pathway, **fields: object) -> Shell:
    """A mesh whose lagmon knows some pathways."""
    shell = await with_lagmon()
    now_ms = shell.me.host.clock.now_ms()
    for each in pathways:
        each.points[-1].report_time_ms = now_ms - 4_000
    shell.lagmon.pathways = api.ListPathwaysResponse(
        pathways=pathways,
        time_ms=now_ms,
        window_ms=60_000,
        **fields,  # type: ignore[arg-type]  # the tests' own
    )
    return shell


def test_a_way_names_service_streams_and_groups() -> None:
    assert way_text(WHOLE) == "shop → orders → checkout → payments → spark"
    assert way_text(pathway(point("orders", "checkout"), partial=True)) == "… → orders → checkout"
    again = pathway(point("orders", parent=0), point("orders", "retry"), point("orders"), point("orders", "retry"))
    assert way_text(again) == "shop → orders → retry → orders → retry"


@pytest.mark.parametrize(
    ("ms", "text"), [(0.0, "0ms"), (198.4, "198ms"), (1_240.0, "1.24s"), (61_000.0, "61s"), (310_000.0, "5m10s")]
)
def test_latencies_have_three_digits(ms: float, text: str) -> None:
    assert latency_text(ms) == text


@virtual
async def test_a_row_has_the_latencies_from_the_beginning() -> None:
    shell = await with_pathways(WHOLE)
    result = await shell.braid("get", "pathways", "--stream", "orders", "-o", "wide")
    header, row = result.out.splitlines()
    assert header.split()[:6] == ["NAME", "PATHWAY", "P50", "P95", "P99", "RECORDS/S"]
    assert "1.24s  1.24s  2.48s  1,200.0" in row
    assert "checkout 250ms/250ms/500ms, payments 450ms/450ms/900ms, spark 1.24s/1.24s/2.48s" in row
    assert row.split()[-1] in ("4s", "5s")
    assert shell.lagmon.pathways_asked[-1].stream == "orders"


@virtual
async def test_a_document_has_every_point() -> None:
    shell = await with_pathways(WHOLE)
    result = await shell.braid("get", "pathways", "00000000000000aa", "-o", "json")
    (document,) = [json.loads(result.out)]
    assert document["kind"] == "Pathway" and document["way"].startswith("shop → orders")
    assert [each["stream"] for each in document["points"]] == ["orders", "orders", "payments", "payments"]


@virtual
async def test_what_is_missing_is_said() -> None:
    left_out = pb.PathwaysLeftOut(garbage_headers=2, records=300, lost_reports=1)
    shell = await with_pathways(WHOLE, left_out=left_out)
    result = await shell.braid("get", "pathways")
    for text in ("2 pathway headers could not be read", "about 300 records are left out", "1 reports did not arrive"):
        assert text in result.err


@virtual
async def test_a_new_leader_says_since_when_it_knows() -> None:
    shell = await with_pathways()
    shell.lagmon.pathways.kept_since_ms = shell.lagmon.pathways.time_ms - 20_000
    result = await shell.braid("get", "pathways")
    assert "has reports of 20s only" in result.err
    assert "there are no pathways" in result.err


@virtual
async def test_the_time_covered_is_asked_for() -> None:
    shell = await with_pathways(WHOLE)
    await shell.braid("get", "pathways", "--since", "30m")
    assert shell.lagmon.pathways_asked[-1].window_ms == pytest.approx(1_800_000, abs=2_000)
    assert (await shell.braid("get", "pathways", "--since", "2h")).code != 0


@virtual
async def test_an_unknown_pathway_is_not_found() -> None:
    shell = await with_pathways(WHOLE)
    result = await shell.braid("get", "pathway", "00000000000000ff")
    assert result.code != 0 and "there is no pathway" in result.err
