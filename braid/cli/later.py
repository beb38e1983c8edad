"""Verbs that are known and not built yet: they say so, whatever follows them."""

from typing import Final

import typer

from braid.cli.errors import not_built

_ANYTHING: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
_RESET: Final = """Set a group's progress to another place (not built yet).

\b
  braid reset group g --stream logs --to earliest --dry-run
"""


def register(app: typer.Typer) -> None:
    """Adds the verbs."""
    app.command("reset", help=_RESET, context_settings=_ANYTHING)(_reset)


def _reset(context: typer.Context) -> None:
    error = not_built("`braid reset`")
    error.remedy = "a new group begins where it is told: braid consume STREAM --group NAME --from earliest|latest|TIME"
    raise error
