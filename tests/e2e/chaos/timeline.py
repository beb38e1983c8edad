"""A run as one HTML page: faults and their targets, the clusters that carried the stream, throughput and lag, over
time."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testbed.ground.field import Mark
from testbed.ground.load import CLUSTERS
from tests.e2e.chaos.catalogue import FAULTS
from tests.e2e.chaos.liveness import Act
from tests.e2e.chaos.series import SLICE_MS, Route, span, throughput

if TYPE_CHECKING:
    from tests.e2e.chaos.run import Report

WIDTH: Final = 1_400
LEFT: Final = 150
RIGHT: Final = 10
CHART: Final = 90
GAP: Final = 26
ROW: Final = 24
TICKS_MAX: Final = 24
_STEPS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)  # seconds between two ticks
_COLOURS: Final[Mapping[str, str]] = dict(zip(CLUSTERS, ("#2b6cb0", "#dd8833", "#2f9e6e"), strict=True))
_FAULT: Final = "#c53030"
_ASKED: Final = "#718096"
_LIGHT: Final = "#a0aec0"
_LAG: Final = "#6b46c1"
_ACT: Final = ' class="act"'
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Chaos {seed}</title>
<style>body{{font:13px system-ui,sans-serif;margin:24px;max-width:1420px;color:#222}}
svg{{background:#fcfcfc;border:1px solid #ddd;display:block}}
.bad{{color:#b00}}td,th{{padding:2px 12px 2px 0;vertical-align:top;text-align:left}}
td:not(:nth-child(3)){{white-space:nowrap}}
.act td{{font-weight:600;border-top:1px solid #ddd}}
text{{font:11px system-ui,sans-serif;fill:#333}}
.key{{display:inline-block;width:11px;height:11px;margin:0 4px 0 14px;vertical-align:-1px}}
.on{{fill:#fff;pointer-events:none}}</style>
<h1>Chaos run, seed {seed}: {verdict}</h1>
<p>{faults} faults with {kills} kills and freezes in {seconds:.0f} s; {acked} records acknowledged, {repeats} processed
again, {given_up} given up by name. {legend}</p>
<p>Point at a bar to read what it was.</p>
{not_played}{violations}<svg width="{width}" height="{height}">{drawing}</svg>
<h2>What happened</h2><table>{happened}</table>
<h2>Figures</h2><table>{figures}</table></html>
"""


def write_report(report: "Report", directory: Path) -> str:
    """Writes `report.json` and `timeline.html`; returns where."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.json").write_text(report.to_json())
    page = directory / "timeline.html"
    page.write_text(page_of(report))
    return str(page)


def page_of(report: "Report") -> str:
    """The page."""
    violations = "".join(f'<p class="bad">{escape(str(each))}</p>' for each in report.violations)
    figures = "".join(
        f"<tr><td>{escape(name)}<td>{', '.join(f'{value:.4g}' for value in values)}"
        for name, values in sorted(report.figures.items())
    )
    keys = [*_COLOURS.items(), ("from a fault to its healing", _FAULT), ("asked for", _ASKED), ("lag", _LAG)]
    plot = _Plot(report)
    drawing = "".join(plot.draw())
    return _PAGE.format(
        seed=report.seed,
        verdict="every invariant held" if not report.violations else f"{len(report.violations)} violations",
        faults=len(report.faults),
        kills=report.kills,
        seconds=report.seconds,
        acked=sum(line.kind == "acked" for line in report.lines),
        repeats=report.repeats,
        given_up=report.given_up,
        legend="".join(f'<span class="key" style="background:{colour}"></span>{name}' for name, colour in keys),
        not_played="".join(
            f"<p>Not played: {escape(name)}, because {escape(why)}</p>" for name, why in report.not_played.items()
        ),
        violations=violations,
        width=WIDTH,
        height=plot.top,
        drawing=drawing,
        happened="".join(plot.happened()),
        figures=figures,
    )


def _length(mark: Mark) -> str:
    return "never" if mark.end_ms is None else f"{(mark.end_ms - mark.begin_ms) / 1_000:.1f} s"


def _stood(act: Act) -> str:
    """Two cells: how long a producer and how long a partition stood still, of what the kind of fault may cost."""
    kind = FAULTS[act.what]
    pairs = ((act.sends_seconds, kind.sends_seconds), (act.works_seconds, kind.works_seconds))
    return "".join(f"<td>{f'{still:.1f}' if still else 'under 1'} s of {may:g}" for still, may in pairs)


class _Plot:
    """Panels one below the other, over one axis of time. `top` is where the next one begins."""

    def __init__(self, report: "Report") -> None:
        self._report = report
        self._begin, self._end = span(report.lines)
        self.top = GAP

    def draw(self) -> Iterator[str]:
        """Everything, from top to bottom."""
        panels = [
            *self._throughput("acked", "acknowledged"),
            *self._throughput("processed", "processed"),
            *self._lag(),
            *self._routes(),
            *self._marks(),
        ]
        yield from self._grid()
        yield from panels

    def happened(self) -> Iterator[str]:
        """Rows of a table: every fault, in order, with when it began, how long it took and what stood still in it."""
        yield "<tr><th>at<th>whom<th>what<th>healed after<th>longest without an acknowledgement<th>without work"
        for mark in sorted([*self._report.acts, *self._report.marks], key=lambda mark: mark.begin_ms):
            told = f"{escape(mark.subject)}<td>{escape(mark.what)}<td>{_length(mark)}"
            stood = _stood(mark) if isinstance(mark, Act) else ""
            yield f"<tr{_ACT if stood else ''}><td>{self._seconds(mark.begin_ms)}<td>{told}{stood}"

    def _x(self, ms: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(ms, self._end) - self._begin) / (self._end - self._begin)

    def _seconds(self, ms: int) -> str:
        return f"{(ms - self._begin) / 1_000:.1f} s"

    def _grid(self) -> Iterator[str]:
        """Ticks of time, and where faults began."""
        whole = (self._end - self._begin) / 1_000
        step = next((each for each in _STEPS if whole / each <= TICKS_MAX), _STEPS[-1])
        for second in range(0, int(whole) + 1, step):
            x = self._x(self._begin + second * 1_000)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{GAP - 6}" y2="{self.top}" stroke="#e4e4e4"/>'
            yield f'<text x="{x + 2:.1f}" y="{GAP - 10}">{second} s</text>'
        for mark in (mark for mark in self._report.marks if mark.hit):
            x = self._x(mark.begin_ms)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{GAP - 6}" y2="{self.top}" stroke="{_FAULT}" opacity=".18"/>'

    def _throughput(self, kind: str, name: str) -> Iterator[str]:
        """Stacked by cluster."""
        counts = throughput(self._report.lines, kind, self._begin)
        slices = range((self._end - self._begin) // SLICE_MS + 1)
        below = [0 for _ in slices]
        layers: list[tuple[str, list[int], list[int]]] = []
        for cluster in [name for name in CLUSTERS if name in counts]:
            above = [low + counts[cluster][number] for number, low in zip(slices, below, strict=True)]
            layers.append((_COLOURS[cluster], below, above))
            below = above
        highest = max(below, default=0)
        yield from self._panel(f"{name},", f"≤ {highest * 1_000 // SLICE_MS} a second", layers, highest)

    def _lag(self) -> Iterator[str]:
        waiting = self._report.lag
        highest = max(waiting, default=0)
        layers = [(_LAG, [0] * len(waiting), waiting)]
        yield from self._panel("acknowledged,", f"not yet settled: ≤ {highest}", layers, highest)

    def _panel(
        self, first: str, second: str, layers: Sequence[tuple[str, list[int], list[int]]], highest: int
    ) -> Iterator[str]:
        base, scale = self.top + CHART, (CHART - 6) / max(1, highest)
        yield f'<text x="4" y="{base - 20}">{first}</text><text x="4" y="{base - 6}">{second}</text>'
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}" stroke="#bbb"/>'
        for colour, below, above in layers:
            there = [f"{self._slice(at):.1f},{base - scale * value:.1f}" for at, value in enumerate(above)]
            back = [f"{self._slice(at):.1f},{base - scale * value:.1f}" for at, value in enumerate(below)][::-1]
            yield f'<polygon fill="{colour}" opacity=".85" points="{" ".join([*there, *back])}"/>'
        self.top = base + GAP // 2

    def _slice(self, number: int) -> float:
        return self._x(self._begin + number * SLICE_MS)

    def _routes(self) -> Iterator[str]:
        """A row a lane; of several clusters at once each has its part of the height."""
        for lane in sorted({route.lane for route in self._report.routes}):
            yield f'<text x="4" y="{self.top + 14}">route of {escape(lane)}</text>'
            for route in self._report.routes:
                if route.lane == lane and route.end_ms > self._begin:
                    yield from self._route(route)
            self.top += ROW

    def _route(self, route: Route) -> Iterator[str]:
        begin, end = self._x(max(route.begin_ms, self._begin)), self._x(route.end_ms)
        told = ", ".join(f"{cluster} {share:.0f} %" for cluster, share in route.shares.items())
        title = f"{route.lane}: {told}, from {self._seconds(route.begin_ms)} to {self._seconds(route.end_ms)}"
        tops = accumulate((18 * share / 100 for share in route.shares.values()), initial=0.0)
        for (cluster, share), top in zip(route.shares.items(), tops, strict=False):
            yield self._bar(begin, end, self.top + top, 18 * share / 100, _COLOURS[cluster], title)
        if len(route.shares) == 1 and end - begin > 40:
            yield f'<text class="on" x="{begin + 4:.1f}" y="{self.top + 13}">{escape(told.partition(" ")[0])}</text>'

    def _marks(self) -> Iterator[str]:
        """A row a subject: the deck, clusters, the rest."""
        self.top += GAP // 2
        marks = [*self._report.acts, *self._report.marks]
        first = [*dict.fromkeys(act.subject for act in self._report.acts), *CLUSTERS]
        subjects = {mark.subject for mark in marks}
        for subject in [*(each for each in first if each in subjects), *sorted(subjects - {*first})]:
            yield f'<text x="4" y="{self.top + 14}">{escape(subject)}</text>'
            mine = [mark for mark in marks if mark.subject == subject]
            yield from (self._mark(mark, number) for number, mark in enumerate(mine))
            self.top += ROW

    def _mark(self, mark: Mark, number: int) -> str:
        """The bar of one entry. Adjacent acts have alternating shades, because they follow without a gap."""
        title = f"{mark.subject} {mark.what}, healed after {_length(mark)}, at {self._seconds(mark.begin_ms)}"
        begin, end = self._x(mark.begin_ms), self._x(self._end if mark.end_ms is None else mark.end_ms)
        light = isinstance(mark, Act) and number % 2
        bar = self._bar(begin, end, self.top, 18, _FAULT if mark.hit else _LIGHT if light else _ASKED, title)
        fits = len(mark.what) * 6 < end - begin
        label = f'<text class="on" x="{begin + 4:.1f}" y="{self.top + 13}">{escape(mark.what)}</text>'
        return bar + (label if fits else "")

    def _bar(self, begin: float, end: float, top: float, height: float, colour: str, title: str) -> str:
        return (
            f'<rect x="{begin:.1f}" y="{top:.1f}" width="{max(3.0, end - begin):.1f}" height="{height:.1f}"'
            f' fill="{colour}" opacity=".8"><title>{escape(title)}</title></rect>'
        )
