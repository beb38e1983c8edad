"""Verbs that are known and not built yet: they say so, whatever follows them."""

from typing import Final

import typer

from braid.cli.errors import not_built

_ANYTHING: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
_DLQ: Final = """Work with dead letters (not built yet).

\b
  braid dlq replay --stream logs --where 'error=ValueError' --dry-run
  braid dlq pause|resume|cancel REPLAY
"""
_RESET: Final = """Set a group's progress to another place (not built yet).

\b
  braid reset group g --stream logs --to earliest --dry-run
"""


def register(app: typer.Typer) -> None:
    """Adds the verbs."""
    app.command("dlq", help=_DLQ, context_settings=_ANYTHING)(_dlq)
    app.command("reset", help=_RESET, context_settings=_ANYTHING)(_reset)


def _dlq(context: typer.Context) -> None:
    verb = next((each for each in context.args if not each.startswith("-")), "")
    error = not_built(f"`braid dlq {verb}`".replace(" `", "`"))
    error.remedy = "read them meanwhile: braid consume STREAM --lane dlq -o json"
    raise error


def _reset(context: typer.Context) -> None:
    error = not_built("`braid reset`")
    error.remedy = "a new group begins where it is told: braid consume STREAM --group NAME --from earliest|latest|TIME"
    raise error
