"""How much of a traceback this process writes into dead letters, as its environment says."""

import os
from collections.abc import Mapping
from typing import Final

from braid.kernel.errors import Invalid

TRACEBACKS_VARIABLE: Final = "BRAID_DEAD_LETTER_TRACEBACKS"
TRACEBACKS: Final = ("full", "cut", "hash", "none")


def tracebacks_of(environment: Mapping[str, str]) -> str:
    """The form of BRAID_DEAD_LETTER_TRACEBACKS; `full` where it is not set. Raises `Invalid` for an unknown one."""
    return check_tracebacks(environment.get(TRACEBACKS_VARIABLE) or TRACEBACKS[0], TRACEBACKS_VARIABLE)


def tracebacks_here() -> str:
    """The form that this process's environment asks for. Raises `Invalid` as `tracebacks_of`."""
    return tracebacks_of(os.environ)


def check_tracebacks(form: str, field: str) -> str:
    """Returns a known form. Raises `Invalid` that names the field for another."""
    if form not in TRACEBACKS:
        raise Invalid(f"{form!r} is unknown", field=field, remedy=f"use one of {TRACEBACKS}")
    return form
