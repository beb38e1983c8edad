"""`apply`, `diff`: bring the mesh to what manifests declare, or show how it differs."""

from pathlib import Path
from typing import Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, DryRunOption, EndpointOption, execute

_APPLY: Final = """Create or change what manifests declare. A second run changes nothing.

\b
  braid apply -f mesh.yaml
  braid apply -f mesh.yaml --dry-run       the mesh checks it and says what would change
  braid get stream logs -o yaml | braid apply -f -

\b
  apiVersion: braid/v1
  kind: Stream
  metadata: {name: logs}
  spec:
    lanes: {live: {partitions: 4}, bulk: {partitions: 4}}
    clusters: [east, west]
    failover: automatic

Kinds: Stream, Cluster, Grant (its spec: principal, role, resource), Tenant (its spec: principals, quotas),
ApprovalPolicy (verbs, resource, expire_seconds, letters_over).
A file may hold several documents. Fields that the mesh adds (status, etag, times) are ignored.
"""
_DIFF: Final = """Show what `apply` would change. Exit code 1 when something differs, 0 when nothing does.

\b
  braid diff -f mesh.yaml
  cat mesh.yaml | braid diff -f -
"""
_Files = Annotated[
    list[Path],
    typer.Option("-f", "--filename", metavar="FILE", help="A manifest; - for stdin. May be repeated."),
]


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("apply", help=_APPLY)(_apply)
    app.command("diff", help=_DIFF)(_diff)


def _apply(
    filename: _Files, dry_run: DryRunOption = False, endpoint: EndpointOption = "", context: ContextOption = ""
) -> None:
    from braid.cli.manifests.apply import apply_manifests
    from braid.cli.manifests.declarations import read_files

    declared = read_files(filename)
    execute(endpoint, context, lambda session: apply_manifests(session, declared, dry_run))


def _diff(filename: _Files, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    from braid.cli.manifests.apply import show_differences
    from braid.cli.manifests.declarations import read_files

    declared = read_files(filename)
    execute(endpoint, context, lambda session: show_differences(session, declared))
