"""How fast a mesh gets over what kills parts of it, measured in the chaos run and written to `build/figures.json`.

The figures are reported beside what is aimed at; a slow machine fails nothing here. What is promised of liveness (I13)
is judged, with twofold slack, where the machine gave its time while it was measured.
"""

import json
import statistics
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.e2e.chaos.liveness import late, not_judged
from tests.e2e.chaos.run import PROMISED, Report

BUILD: Final = Path(__file__).resolve().parents[2] / "build"


class Figure(NamedTuple):
    """A measurement (its name ends in its unit) and what it should be at most."""

    name: str
    aim: float


FIGURES: Final = (
    Figure("cluster_killed_to_first_ack_elsewhere_ms", 5_000),
    Figure("member_killed_to_first_record_ms", 1_000),
    Figure("planned_move_stall_ms", 1_000),
    Figure("dev_ready_seconds", 12),
    Figure("dev_memory_mb", 1_500),
    *(Figure(name, aim) for name, aim in PROMISED.items()),
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(1_800)]


def test_every_figure_is_measured(report: Report) -> None:
    table = {figure.name: _row(figure, report) for figure in FIGURES}
    BUILD.mkdir(exist_ok=True)
    (BUILD / "figures.json").write_text(json.dumps(table, indent=1) + "\n")
    print(json.dumps(table, indent=1))
    assert not [name for name, row in table.items() if not row["median"] > 0]


def test_work_goes_on_soon_after_healing(report: Report) -> None:
    print(*(f"{name}: the machine gave {share:.0%}" for name, share in report.given.items()), sep="\n")
    assert report.given.keys() == PROMISED.keys()
    assert late(PROMISED, report.figures, report.given) == []
    assert not_judged(PROMISED, report.figures, report.given) == [], "not judged in three runs"


def _row(figure: Figure, report: Report) -> dict[str, float]:
    values = report.figures[figure.name]
    return {
        "aim": figure.aim,
        "median": round(statistics.median(values), 3),
        "worst": round(max(values), 3),
        "measured": len(values),
    }
