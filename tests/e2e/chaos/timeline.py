"""A run as one HTML page: what happened to whom, and how many records a second were acknowledged and processed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.e2e.chaos.field import Mark
from tests.e2e.chaos.journals import Line

if TYPE_CHECKING:
    from tests.e2e.chaos.run import Report

WIDTH: Final = 1_400
LEFT: Final = 130
ROW: Final = 24
CHART: Final = 90
SLICE_MS: Final = 250
_COLOURS: Final = {"acked": "#2b7", "processed": "#36c"}
_PAGE: Final = """<!doctype html><meta charset="utf-8"><title>Chaos {seed}</title>
<style>body{{font:13px system-ui;margin:24px;max-width:1420px}}svg{{background:#fafafa;border:1px solid #ddd}}
.bad{{color:#b00}}td{{padding:2px 12px 2px 0}}text{{font:11px system-ui}}</style>
<h1>Chaos run, seed {seed}: {verdict}</h1>
<p>{kills} kills in {seconds:.0f} s; {repeats} records processed again. Green: acknowledged, blue: processed,
per {slice} ms. Red: from a fault to its healing.</p>
{violations}<svg width="{width}" height="{height}">{drawing}</svg>
<table>{figures}</table>
"""


def write_report(report: "Report", directory: Path) -> str:
    """Writes `report.json` and `timeline.html`; returns where."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.json").write_text(report.to_json())
    page = directory / "timeline.html"
    page.write_text(_page(report))
    return str(page)


def _page(report: "Report") -> str:
    subjects = sorted({mark.subject for mark in report.marks})
    begin, end = _span(report.lines)
    height = 2 * CHART + 40 + ROW * len(subjects)
    drawing = [
        *_chart(report.lines, "acked", begin, end, CHART),
        *_chart(report.lines, "processed", begin, end, 2 * CHART + 10),
        *_rows(report.marks, subjects, begin, end),
    ]
    violations = "".join(f'<p class="bad">{escape(str(each))}</p>' for each in report.violations)
    figures = "".join(
        f"<tr><td>{escape(name)}<td>{', '.join(f'{value:.4g}' for value in values)}"
        for name, values in sorted(report.figures.items())
    )
    return _PAGE.format(
        seed=report.seed,
        verdict="every invariant held" if not report.violations else f"{len(report.violations)} violations",
        kills=report.kills,
        seconds=report.seconds,
        repeats=report.repeats,
        slice=SLICE_MS,
        violations=violations,
        width=WIDTH,
        height=height,
        drawing="".join(drawing),
        figures=figures,
    )


def _span(lines: Sequence[Line]) -> tuple[int, int]:
    times = [line.ms for line in lines] or [0]
    return min(times), max(times) + 1


def _x(ms: int, begin: int, end: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * (ms - begin) / (end - begin)


def _chart(lines: Sequence[Line], kind: str, begin: int, end: int, base: int) -> Iterator[str]:
    """Bars over `base`, with the highest at full height."""
    slices = Counter((line.ms - begin) // SLICE_MS for line in lines if line.kind == kind)
    highest = max(slices.values(), default=1)
    yield f'<text x="4" y="{base - 4}">{kind}, ≤ {highest * 1000 // SLICE_MS}/s</text>'
    points = [f"{LEFT},{base}"]
    for number in range((end - begin) // SLICE_MS + 1):
        x, y = _x(begin + number * SLICE_MS, begin, end), base - (CHART - 8) * slices[number] / highest
        points.append(f"{x:.1f},{y:.1f}")
    points.append(f"{_x(end, begin, end):.1f},{base}")
    yield f'<polygon fill="{_COLOURS[kind]}" points="{" ".join(points)}"/>'


def _rows(marks: Sequence[Mark], subjects: Sequence[str], begin: int, end: int) -> Iterator[str]:
    top = 2 * CHART + 30
    for row, subject in enumerate(subjects):
        yield f'<text x="4" y="{top + row * ROW + 14}">{escape(subject)}</text>'
    for mark in marks:
        y = top + subjects.index(mark.subject) * ROW
        x, width = _x(mark.begin_ms, begin, end), max(3.0, _x(mark.end_ms, begin, end) - _x(mark.begin_ms, begin, end))
        told = (
            f"{mark.subject} {mark.what}, {mark.end_ms - mark.begin_ms} ms, at {(mark.begin_ms - begin) / 1000:.1f} s"
        )
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="18" fill="#d44" opacity=".7">'
            f"<title>{escape(told)}</title></rect>"
        )
