"""Queries and panels made from declarations of metrics, as values. Pure.

A panel can only ask for a metric that is declared, takes its unit from the declaration, and says its meaning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from braid.kernel.metrics import MetricDeclaration, prometheus_name

RATE: Final = "$__rate_interval"
WIDTH: Final = 24  # of Grafana's grid
_UNITS: Final = {"s": "s", "By": "bytes", "By/s": "Bps"}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel, and the text of its legend."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a board, with its queries.

    Attributes:
        kind: Grafana's type of panel: `timeseries` or `stat`.
        unit: Grafana's name of the unit.
        width: In columns of Grafana's grid.
    """

    title: str
    description: str
    queries: Sequence[Query]
    unit: str
    kind: str = "timeseries"
    width: int = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a board: the values that a label of a metric has."""

    name: str
    metric: MetricDeclaration
    label: str


@dataclass(frozen=True, slots=True)
class Section:
    """A row of a board, with its panels."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard, with the choices at its top.

    Attributes:
        uid: The name of its file, and its address in Grafana.
    """

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    sections: Sequence[Section]


def value(title: str, declared: MetricDeclaration, by: Sequence[str] = (), where: str = "", fold: str = "sum") -> Panel:
    """A panel with the present value of a gauge or up-down counter, folded over what `by` does not name."""
    expr = _folded(fold, by, f"{_series(declared)}{_braces(where)}")
    return Panel(title, _sentence(declared), [Query(expr, _legend(by, title))], _unit(declared))


def total(title: str, declared: MetricDeclaration, by: Sequence[str] = (), where: str = "") -> Panel:
    """A panel with the sum of a gauge that every replica of a service shows alike: each row counts once."""
    once = _folded("max", declared.labels, f"{_series(declared)}{_braces(where)}")
    return Panel(title, _sentence(declared), [Query(_folded("sum", by, once), _legend(by, title))], _unit(declared))


def rate(title: str, declared: MetricDeclaration, by: Sequence[str] = (), where: str = "", fold: str = "sum") -> Panel:
    """A panel with the increase a second of a counter, or of the observations of a histogram."""
    name = f"{_series(declared)}_count" if declared.kind == "histogram" else _series(declared)
    expr = _folded(fold, by, f"rate({name}{_braces(where)}[{RATE}])")
    unit = "Bps" if declared.unit == "By" else "ops"
    return Panel(title, _sentence(declared), [Query(expr, _legend(by, title))], unit)


def quantiles(title: str, declared: MetricDeclaration, by: Sequence[str] = (), where: str = "") -> Panel:
    """A panel with a histogram's median and 99th percentile."""
    buckets = _folded("sum", ("le", *by), f"rate({_series(declared)}_bucket{_braces(where)}[{RATE}])")
    queries = [
        Query(f"histogram_quantile({share}, {buckets})", f"{_legend(by, '')} {name}".strip())
        for share, name in ((0.5, "p50"), (0.99, "p99"))
    ]
    return Panel(title, _sentence(declared), queries, _unit(declared))


def count(title: str, declared: MetricDeclaration, by: Sequence[str] = (), where: str = "") -> Panel:
    """A panel with the number of a metric's series."""
    expr = _folded("count", by, f"{_series(declared)}{_braces(where)}")
    return Panel(title, _sentence(declared), [Query(expr, _legend(by, title))], "short")


def top(title: str, declared: MetricDeclaration, by: Sequence[str], where: str = "", most: int = 10) -> Panel:
    """A panel with the largest values of a gauge."""
    expr = f"topk({most}, {_folded('max', by, f'{_series(declared)}{_braces(where)}')})"
    return Panel(title, _sentence(declared), [Query(expr, _legend(by, title))], _unit(declared))


def replicas(title: str, declared: MetricDeclaration, info: MetricDeclaration) -> Panel:
    """A panel with a gauge of replicas, by service: `info` names the service of each."""
    expr = f"sum by (service) ({_series(declared)} * on (job, instance) group_left (service) {_series(info)})"
    return Panel(title, _sentence(declared), [Query(expr, "{{service}}")], "short")


def _series(declared: MetricDeclaration) -> str:
    if "." in declared.name:
        return prometheus_name(declared)
    return declared.name if declared.kind == "histogram" else declared.series


def _folded(fold: str, by: Sequence[str], inner: str) -> str:
    return f"{fold} by ({', '.join(by)}) ({inner})" if by else f"{fold}({inner})"


def _braces(where: str) -> str:
    return f"{{{where}}}" if where else ""


def _legend(by: Sequence[str], title: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by) or title


def _unit(declared: MetricDeclaration) -> str:
    return _UNITS.get(declared.unit, "short")


def _sentence(declared: MetricDeclaration) -> str:
    return f"{declared.meaning} (`{declared.name}`)."
