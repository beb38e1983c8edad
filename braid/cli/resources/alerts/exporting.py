"""Defines `alerts export`: the rules of alerts as files for Prometheus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.cli.core.session import Session

_ALERTS: Final = """Write the rules of alerts as files for Prometheus.

\b
  braid alerts export --directory /etc/prometheus/rules
"""
_EXPORT: Final = """Write the rules of alerts as rule files for Prometheus, as the mesh's lagmon applies them.

\b
  braid alerts export                                      to the standard output
  braid alerts export --directory /etc/prometheus/rules
  braid alerts export --runbooks https://docs.example/braid/runbooks

The targets of streams are metrics, so the files stay the same when manifests change. Prometheus knows no silences of
`braid silence`: silence those alerts in your Alertmanager.
"""


def register(app: typer.Typer) -> None:
    """Adds `alerts` to the application."""
    alerts = typer.Typer(help=_ALERTS, no_args_is_help=True, rich_markup_mode=None)
    alerts.callback()(lambda: None)  # without it typer takes the single command for the whole of `alerts`
    alerts.command("export", help=_EXPORT)(_export)
    app.add_typer(alerts, name="alerts", help=_ALERTS)


def _export(
    directory: Annotated[
        Path | None, typer.Option("--directory", metavar="DIRECTORY", help="Write files there, with their names.")
    ] = None,
    runbooks: Annotated[
        str, typer.Option("--runbooks", metavar="URL", help="Where docs/runbooks is served; lagmon's setting else.")
    ] = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    execute(endpoint, context, lambda session: _written(session, directory, runbooks))


async def _written(session: "Session", directory: Path | None, runbooks: str) -> int:
    """Prints the files, or writes them into a directory."""
    from braid.api.lagmon.v1.lagmon_service_pb2 import ExportAlertRulesRequest, ExportAlertRulesResponse

    request = ExportAlertRulesRequest(runbooks=runbooks)
    answer = await session.read("lagmon", "ExportAlertRules", request, ExportAlertRulesResponse)
    for file in answer.files:
        if directory is None:
            session.terminal.print(file.content.rstrip("\n"))
        else:
            path = directory / Path(file.name).name  # whatever the mesh says, nothing is written elsewhere
            _write(path, file.content)
            session.terminal.print(f"{path} written")
    return 0


def _write(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise Invalid(f"{path} cannot be written: {reason}", field="--directory") from error
