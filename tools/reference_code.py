"""Generates the pages of errors, limits and metrics from the code that declares them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from braid.cli.errors import exit_code
from braid.kernel import errors
from braid.kernel.errors import BraidError
from braid.kernel.metrics import LABELS, MetricDeclaration
from tools import metric_catalogue
from tools.reference_text import code, page, sentence, table

_ERRORS: Final = """The one tree of errors: a class of `braid`, the reason in `google.rpc.ErrorInfo`, the gRPC code, and
how the command line ends. Each says what happened, the field at fault and what to try next."""
_LIMITS: Final = """Every bound and timeout, with its why; the code reads them from `braid/kernel/limits/` alone,
and from `limits.py` of a part whose bounds are nobody else's."""
_METRICS: Final = """What every replica serves at `/metrics` in Prometheus' text format. Durations are seconds, sizes
bytes. A counter's name ends with `_total` there; a histogram has `_bucket`, `_sum` and `_count`. Units are in the
notation of UCUM."""
_SDK: Final = """## The SDK

What an application's process tells by OpenTelemetry's metrics, where it has a reader of them. Prometheus sees dots as
underscores, units at the end of names, and `_total` after counters' names.
"""
_NOTES: Final = {
    "lagmon": """`BRAID_LAG_EXPORTERS` says which of the sets of `kafka_exporter` (the default),
`kafka_lag_exporter` and `kminion` are served:
[numbers of other exporters](../guides/dashboards.md#numbers-of-other-exporters)."""
}
_SECTION: Final = re.compile(r"^# --- (.+)$")
OWN_LIMITS: Final = ("braid/cli/core/limits.py", "braid/spark/limits.py", "devmesh/limits.py", "pipelines/limits.py")


def errors_page(root: Path) -> str:
    """The page of errors, from this process's own classes whatever `root` is."""
    rows = [
        (
            f"{'· ' * depth}{code(kind.__name__)}",
            code(kind.reason),
            code(kind.code.name),
            str(exit_code(kind(""))),
            sentence(kind.__doc__),
        )
        for kind, depth in _tree(BraidError, 0)
    ]
    return page("Errors", _ERRORS, [table(("Class", "Reason", "gRPC code", "Exit code", "Meaning"), rows)])


def limits_page(root: Path) -> str:
    """The page of limits, with a heading per file."""
    parts: list[str] = []
    for path in [*sorted((root / "braid/kernel/limits").rglob("*.py")), *(root / own for own in OWN_LIMITS)]:
        sections: dict[str, list[tuple[str, str, str]]] = {}
        _add_limits(sections, path.read_text())
        if sections:
            parts.append(f"## {code(str(path.relative_to(root)))}\n")
        for title, rows in sections.items():
            parts += [f"### {title[:1].upper()}{title[1:]}\n", table(("Limit", "Value", "Why"), rows)]
    return page("Limits", _LIMITS, parts)


def _add_limits(sections: dict[str, list[tuple[str, str, str]]], text: str) -> None:
    comments = _comments(text)
    lines = text.splitlines()
    titles = [(number, found[1]) for number, line in enumerate(lines, 1) if (found := _SECTION.match(line))]
    for node in ast.parse(text).body:
        if not isinstance(node, ast.AnnAssign) or node.value is None or not isinstance(node.target, ast.Name):
            continue
        title = next((each for number, each in reversed(titles) if number < node.lineno), "Others")
        why = " ".join(comments[each] for each in range(node.lineno, _end(node) + 1) if each in comments)
        value = _written(lines, node.value)
        sections.setdefault(title, []).append((code(node.target.id), code(value), why))


def metrics_page(root: Path) -> str:
    """The page of metrics, from this process's own declarations whatever `root` is."""
    parts: list[str] = []
    for owner, declared in metric_catalogue.services():
        parts += [f"## {owner or 'Every service'}\n", _metrics_table(declared)]
        parts += [f"{note}\n" for note in (_NOTES.get(owner),) if note]
    bounds = [(code(label), LABELS[label]) for label in sorted(LABELS)]
    parts += ["## Labels\n", table(("Label", "Its values are"), bounds)]
    parts += [_SDK, _metrics_table(metric_catalogue.sdk())]
    return page("Metrics", _METRICS, parts)


def _metrics_table(declared: Iterable[MetricDeclaration]) -> str:
    head = ("Metric", "Kind", "Unit", "Labels", "Meaning")
    return table(
        head,
        [
            (
                code(each.series if "." not in each.name else each.name),
                each.kind,
                code(each.unit) if each.unit else "",
                ", ".join(map(code, each.labels)),
                each.meaning + (f" (at most {each.rows_max:,} rows)" if each.rows_max else ""),
            )
            for each in declared
        ],
    )


def _tree(kind: type[BraidError], depth: int) -> Iterator[tuple[type[BraidError], int]]:
    if kind.__module__ == errors.__name__:
        yield kind, depth
        for each in kind.__subclasses__():
            yield from _tree(each, depth + 1)


def _comments(text: str) -> dict[int, str]:
    """Comments by line, without the comment sign."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {each.start[0]: each.string.lstrip("# ") for each in tokens if each.type == tokenize.COMMENT}


def _written(lines: Sequence[str], node: ast.expr) -> str:
    """A value as its line shows it; a value over several lines as Python would write it."""
    if node.lineno != node.end_lineno:
        return ast.unparse(node)
    return lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
