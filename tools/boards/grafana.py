"""Boards as Grafana's JSON, and the schema that they keep."""

from typing import Final

from tools.boards.panels import WIDTH, Board, Panel, Variable

Json = str | int | bool | list["Json"] | dict[str, "Json"]

SCHEMA_VERSION: Final = 39  # of dashboards: what Grafana 10.4 and later read
HEIGHT: Final = 8
_SOURCE: Final[dict[str, Json]] = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(board: Board) -> dict[str, Json]:
    """Returns a board as Grafana imports it."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.description,
        "tags": ["braid"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [{
            "title": "Braid", "type": "dashboards", "icon": "external link", "tooltip": "", "tags": ["braid"],
            "asDropdown": True, "targetBlank": False, "includeVars": True, "keepTime": True,
        }],
        "templating": {"list": [_source_variable(), *map(_variable, board.variables)]},
        "panels": _panels(board),
    }  # fmt: skip


def _source_variable() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def variable_query(variable: Variable) -> str:
    """Returns what Grafana asks Prometheus for the values of a variable."""
    return f"label_values({variable.metric.series}, {variable.label})"


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": variable_query(variable),
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panels(board: Board) -> list[Json]:
    """Lays panels out from left to right, section by section."""
    found: list[Json] = []
    y = 0
    for section in board.sections:
        found.append({
            "id": len(found) + 1, "type": "row", "title": section.title, "collapsed": False, "panels": [],
            "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
        })  # fmt: skip
        y += 1
        x = 0
        for panel in section.panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + HEIGHT
            found.append(_panel(len(found) + 1, panel, x, y))
            x += panel.width
        y += HEIGHT
    return found


def _panel(number: int, panel: Panel, x: int, y: int) -> Json:
    targets: list[Json] = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
            "range": True,
        }
        for index, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"h": HEIGHT, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }
