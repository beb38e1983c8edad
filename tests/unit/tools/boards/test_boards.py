"""Boards are what their catalogue gives, keep Grafana's schema, and ask only for metrics that are declared."""

import json
import re
from itertools import chain, combinations
from pathlib import Path
from typing import Final

import pytest

from braid.kernel.metrics import MetricDeclaration, prometheus_name
from tests.support.board_queries import dashboards, names_in, queries
from tools import metric_catalogue
from tools.boards import __main__ as boards

SCHEMA: Final = json.loads((Path(__file__).parents[3] / "support" / "dashboard_schema.json").read_text())
QUERIES: Final = tuple(queries())


def declared_samples() -> dict[str, MetricDeclaration]:
    """Declarations by the names of their samples in Prometheus."""
    found: dict[str, MetricDeclaration] = {}
    for each in chain.from_iterable(declared for _, declared in metric_catalogue.services()):
        found |= dict.fromkeys(each.samples, each)
    for each in metric_catalogue.sdk():
        translated = prometheus_name(each)
        parts = ("_bucket", "_sum", "_count") if each.kind == "histogram" else ("",)
        found |= {f"{translated}{part}": each for part in parts}
    return found


def test_the_files_are_what_the_catalogue_gives() -> None:
    assert boards.stale(boards.ROOT) == []
    assert sorted(dashboards()) == sorted(board.uid for board in boards.BOARDS)
    assert boards.main(["check"]) == 0 and boards.main(["draw"]) == 2


def test_a_changed_board_and_a_strange_file_are_stale(tmp_path: Path) -> None:
    boards.write(tmp_path)
    assert boards.stale(tmp_path) == []
    changed, strange = tmp_path / boards.DIRECTORY / "braid-mesh.json", tmp_path / boards.DIRECTORY / "mine.json"
    changed.write_text(changed.read_text().replace("Braid: mesh", "Mesh"))
    strange.write_text("{}")
    assert boards.stale(tmp_path) == [each.relative_to(tmp_path) for each in (changed, strange)]
    boards.write(tmp_path)
    assert boards.stale(tmp_path) == [] and not strange.exists()


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_a_board_keeps_the_schema(name: str) -> None:
    import jsonschema  # takes seconds: it compiles grammars of URIs, which nothing here asks for

    jsonschema.validate(dashboards()[name], SCHEMA)


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_panels_have_ids_and_places_of_their_own(name: str) -> None:
    panels = dashboards()[name]["panels"]
    assert isinstance(panels, list)
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_boards_name_declared_metrics_alone() -> None:
    known = declared_samples()
    assert {(each.board, name) for each in QUERIES for name in each.names() - known.keys()} == set()
    assert len({name for each in QUERIES for name in each.names()}) > 40


def test_queries_use_the_labels_of_their_metrics() -> None:
    known = declared_samples()
    for query in QUERIES:
        has = {label.replace(".", "_") for name in query.names() for label in known[name].labels}
        grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", query.expr)
        matched = re.findall(r"(\w+)(?:=~|!~|!=|=)", "".join(re.findall(r"\{[^}]*\}", query.expr)))
        labels = {label.strip() for each in grouped for label in each.split(",")} | set(matched)
        assert labels - {"le", "job", "instance"} <= has, query


def test_names_are_found_in_any_query() -> None:
    expr = (
        'sum by (le, a) (rate(b_bucket{c=~"$d", e="f g"}[$__rate_interval])) / on (h) group_left (i) j:k or topk(3, l)'
    )
    assert names_in(expr) == {"b_bucket", "j:k", "l"}
