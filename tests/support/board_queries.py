"""Queries of the boards in deploy/grafana, read from their files, and the names of metrics in them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

DIRECTORY: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "dashboards"
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
# What is no metric in PromQL: texts, ranges, the labels of groupings and of matchers, then functions and operators.
_NO_NAMES: Final = re.compile(r'"[^"]*"|\[[^\]]*\]|\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)')
_MATCHERS: Final = re.compile(r"\{[^}]*\}")
_WORDS: Final = re.compile(r"\b(?:and|or|unless|offset|bool)\b|\b[a-z_]+(?=\s*\()")
_FOLDS: Final = re.compile(r"\b(?:sum|max|min|count|avg|topk)\b")


class BoardQuery(NamedTuple):
    """One query of a board."""

    board: str
    panel: str
    expr: str

    def runnable(self) -> str:
        """The query as Grafana sends it where everything is chosen."""
        return re.sub(r"\$\w+", lambda found: "1m" if found[0] == "$__rate_interval" else ".+", self.expr)

    def names(self) -> set[str]:
        """The metrics that it names."""
        return names_in(self.expr)


def names_in(expr: str) -> set[str]:
    """Names of the metrics in a query."""
    bare = _FOLDS.sub(" ", _WORDS.sub(" ", _MATCHERS.sub(" ", _NO_NAMES.sub(" ", expr))))
    return set(_NAME.findall(bare))


def dashboards() -> dict[str, dict[str, object]]:
    """The boards' files, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(DIRECTORY.glob("*.json"))}


def queries() -> Iterator[BoardQuery]:
    """Every query of every board, those of its variables, too."""
    for name, board in dashboards().items():
        panels, templating = board["panels"], board["templating"]
        assert isinstance(panels, list) and isinstance(templating, dict)
        for panel in panels:
            for target in panel.get("targets", ()):
                yield BoardQuery(name, panel["title"], target["expr"])
        for variable in templating["list"]:
            if found := re.fullmatch(r"label_values\((\w+), \w+\)", variable["query"]):
                yield BoardQuery(name, f"${variable['name']}", found[1])
