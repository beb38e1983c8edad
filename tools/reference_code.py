"""Generates the pages of errors, limits and metrics from the code that declares them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from braid.cli.errors import exit_code
from braid.client.telemetry.metrics import CATALOGUE
from braid.kernel import errors
from braid.kernel.errors import BraidError
from tools.reference_text import code, page, sentence, table

_ERRORS: Final = """The one tree of errors: a class of `braid`, the reason in `google.rpc.ErrorInfo`, the gRPC code, and
how the command line ends. Each says what happened, the field at fault and what to try next."""
_LIMITS: Final = """Every bound and timeout, with its why; the code reads them from `braid/kernel/limits/` alone,
and from `limits.py` of a part whose bounds are nobody else's."""
_METRICS: Final = """What every replica serves at `/metrics` in Prometheus' text format. Durations are seconds, sizes
bytes. A counter's name ends with `_total` there; a histogram has `_bucket`, `_sum` and `_count`."""
_SDK: Final = """## The SDK

What an application's process tells by OpenTelemetry's metrics, where it has a reader of them.
"""
_INSTRUMENT: Final = re.compile(r"create_(?:observable_)?(counter|up_down_counter|gauge|histogram)")
_SECTION: Final = re.compile(r"^# --- (.+)$")
_METRIC: Final = re.compile(r"(braid|kafka)_[a-z_]+")
_DECLARED: Final = re.compile(r"(Gauge|Counter|Histogram|MetricFamily|seconds)\(\s*\"|SampledMetric\(")
_SAMPLED: Final = "SampledMetric"  # its registry comes before name and text
OWN_LIMITS: Final = ("braid/cli/core/limits.py", "braid/spark/limits.py", "devmesh/limits.py", "pipelines/limits.py")
_OWNER: Final = re.compile(r"make_([a-z]+)_metrics")
_KINDS: Final = {
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
    "seconds": "histogram",
    _SAMPLED: "gauge",
}


class Metric(NamedTuple):
    """One instrument, as the code declares it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    service: str


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
    for path in [*sorted((root / "braid/kernel/limits").glob("*.py")), *(root / own for own in OWN_LIMITS)]:
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
    """The page of metrics: every instrument that the runtime or a service declares with a literal name."""
    found: dict[str, Metric] = {}
    for path in [*(root / "braid" / "runtime").rglob("*.py"), *(root / "services").rglob("*.py")]:
        text = path.read_text()
        if _DECLARED.search(text):
            for metric in metrics_of(text, _service(path.relative_to(root))):
                found.setdefault(metric.name, metric)
    parts: list[str] = []
    for service in sorted({each.service for each in found.values()}, key=lambda name: (name != "", name)):
        mine = sorted(each for each in found.values() if each.service == service)
        rows = [(code(each.name), each.kind, ", ".join(map(code, each.labels)), each.text) for each in mine]
        parts += [f"## {service or 'Every service'}\n", table(("Metric", "Kind", "Labels", "Meaning"), rows)]
    modules = sorted((root / "braid" / "client").rglob("*.py"))
    sdk = [each for path in modules for each in _instruments(path.read_text())]
    if sdk:
        parts += [_SDK, table(("Metric", "Kind", "Unit", "Meaning"), sorted(sdk))]
    told = [
        (code(each.name), each.kind, code(each.unit), ", ".join(map(code, each.attributes)), each.meaning)
        for each in CATALOGUE
    ]
    parts.append(table(("Metric", "Kind", "Unit", "Attributes", "Meaning"), told))
    return page("Metrics", _METRICS, parts)


def _instruments(text: str) -> Iterator[tuple[str, str, str, str]]:
    """OpenTelemetry instruments that a module creates with a literal name: name, kind, unit, meaning."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        found = _INSTRUMENT.fullmatch(node.func.attr)
        given = {each.arg: each.value for each in node.keywords} | dict(zip(("name",), node.args, strict=False))
        told = {name: each.value for name, each in given.items() if isinstance(each, ast.Constant)}
        if found and "name" in told:
            kind = found[1].replace("_", "-")
            yield code(str(told["name"])), kind, code(str(told.get("unit", ""))), str(told.get("description", ""))


def metrics_of(text: str, service: str) -> Iterator[Metric]:
    """Instruments that a module declares: calls of a known kind with a name and a text.

    Those in a function `make_<service>_metrics` belong to that service.
    """
    tree = ast.parse(text)
    tuples = {name: labels for node in tree.body for name, labels in _constant(node)}
    for part in tree.body:
        owner = _OWNER.fullmatch(part.name) if isinstance(part, ast.FunctionDef) else None
        yield from _metrics_in(part, owner[1] if owner else service, tuples)


def _metrics_in(part: ast.stmt, service: str, tuples: Mapping[str, tuple[str, ...]]) -> Iterator[Metric]:
    for node in ast.walk(part):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        args = node.args[1:] if called == _SAMPLED else node.args
        if called not in _KINDS or len(args) < 2 or not _METRIC.fullmatch(name := _text(args[0])):
            continue
        keywords = [each.value for each in node.keywords if each.arg in ("labels", "labelnames")]
        labels = [*args[2:3], *keywords]
        kind = "counter" if any(each.arg == "counter" for each in node.keywords) else _KINDS[called]
        suffix = "_total" if kind == "counter" and not name.endswith("_total") else ""
        yield Metric(name + suffix, kind, _labels(labels[0], tuples) if labels else (), _text(args[1]), service)


def _labels(node: ast.expr, tuples: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return tuples.get(node.id, ())
    if isinstance(node, ast.Starred):
        return _labels(node.value, tuples)
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(
            label
            for each in node.elts
            for label in ((_text(each),) if isinstance(each, ast.Constant) else _labels(each, tuples))
        )
    return ()


def _constant(node: ast.stmt) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A module's tuple or list of texts, by name."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, _labels(node.value, {})
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, _labels(node.value, {})


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


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


def _service(path: Path) -> str:
    return path.parts[1] if path.parts[0] == "services" else ""
