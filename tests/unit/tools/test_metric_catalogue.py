"""Every metric is declared once, with base units and bounded labels, and made from its declaration."""

import ast
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.metrics import LABELS, MetricDeclaration, prometheus_name
from braid.runtime.metrics.instruments import MetricRegistry, gauge
from tools import metric_catalogue

ROOT: Final = Path(__file__).parents[3]
SERVICES: Final = tuple(chain.from_iterable(declared for _, declared in metric_catalogue.services()))
SUFFIXES: Final = {"s": "_seconds", "By": "_bytes", "By/s": "_bytes_per_second"}


def test_no_name_is_declared_twice() -> None:
    names = [each.name for each in (*SERVICES, *metric_catalogue.sdk())]
    assert len(names) == len(set(names)) > 60


def test_names_have_a_prefix_and_end_with_their_unit() -> None:
    for each in SERVICES:
        assert each.name.startswith(("braid_", "kafka_", "kminion_"))
        assert each.unit != "1", (
            f"{each.name}: translators append `_ratio` to such a gauge; a note in braces is no unit"
        )
        spelled = [suffix for suffix in SUFFIXES.values() if each.name.endswith(suffix)]
        wanted = SUFFIXES.get(each.unit)
        assert not wanted or each.name.endswith(wanted), f"{each.name} is in {each.unit}"
        assert wanted or not spelled, f"{each.name} has the unit {each.unit!r}"


def test_an_exported_name_is_what_translators_make() -> None:
    """A metric that comes by OTLP over a collector has the same name in Prometheus as one that is scraped."""
    assert [prometheus_name(each) for each in SERVICES] == [each.series for each in SERVICES]


def test_every_label_has_a_bound_and_is_used() -> None:
    used = {label for each in SERVICES for label in each.labels}
    assert used == set(LABELS)


def test_a_label_without_a_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="without a bound"):
        gauge(MetricRegistry(), MetricDeclaration("braid_keys", "gauge", "", ("key",), "Keys"))


def test_instruments_are_made_from_declarations_alone() -> None:
    """A module that calls a class of Prometheus' client makes an instrument, or serves the registry."""
    makers, declarers = set(), set()
    for path in chain((ROOT / "braid").rglob("*.py"), (ROOT / "services").rglob("*.py")):
        text = path.read_text()
        if "prometheus_client" in text or "MetricDeclaration(" in text:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            tree = ast.parse(text)
            called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            makers |= {name} if called & imported_from(tree, "prometheus_client") - {"CollectorRegistry"} else set()
            declarers |= {name} if "MetricDeclaration" in called else set()
    assert makers == {
        "braid.runtime.metrics.instruments",
        "braid.runtime.metrics.server",
        "braid.runtime.metrics.sampled",
    }
    assert declarers == {each.__name__ for each in metric_catalogue.MODULES}


def imported_from(tree: ast.Module, package: str) -> set[str]:
    """Names that a module imports from a package."""
    return {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for each in node.names
    }


@pytest.mark.parametrize(
    ("name", "kind", "unit", "translated"),
    [
        ("messaging.process.duration", "histogram", "s", "messaging_process_duration_seconds"),
        ("messaging.client.sent.messages", "counter", "{message}", "messaging_client_sent_messages_total"),
        ("braid.client.zone.io", "counter", "By", "braid_client_zone_io_bytes_total"),
        ("braid.consumer.parked", "up-down counter", "{message}", "braid_consumer_parked"),
    ],
)
def test_names_of_the_sdk_are_translated(name: str, kind: str, unit: str, translated: str) -> None:
    declared = MetricDeclaration(name, kind, unit, (), "")  # type: ignore[arg-type]
    assert prometheus_name(declared) == translated
