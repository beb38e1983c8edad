"""Mutants of tenants: see `mutants`."""

from typing import Final

from braid.kernel.access.promises import Promises
from braid.runtime.access.admissions import Admissions
from tests.simulation.mutants import Mutant


def _nothing(*_: object) -> frozenset[object]:
    """No promise is remembered; nothing is given back."""
    return frozenset()


TENANT_MUTANTS: Final = (
    Mutant(
        "a promise is forgotten",
        "I19 tenants",
        [(Promises, "of", _nothing)],
        ("kill-service",),
        {"tenants": True, "fault_seconds": 10.0},
    ),
    Mutant(
        "an admission is not given back",
        "I19 tenants",
        [(Admissions, "_leave", _nothing)],
        ("slow-store",),
        {"tenants": True, "fault_seconds": 10.0},
    ),
)
