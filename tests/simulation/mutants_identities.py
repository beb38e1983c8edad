"""Mutants of who calls: see `mutants`."""

from typing import Final

from braid.kernel.ports import Identity, Shown
from braid.rpc import authenticators
from braid.rpc.memory.tokens import MemoryTokens
from services.registry.liveness.cluster_use import ClusterUse
from services.registry.liveness.producer_sessions import Sessions
from services.registry.watches import routes
from tests.simulation.mutants import Mutant


def _believes(claimed: str, verified: str) -> None:
    """Nothing is checked."""


async def _takes_every_token(self: MemoryTokens, shown: Shown) -> Identity | None:
    return Identity("jwt:somebody") if shown.bearer else None


def _is_there(*arguments: object) -> ClusterUse:
    """A defect: a stream's producers are witnesses of every cluster."""
    return ClusterUse.NOW


def _checks_nothing(*arguments: object) -> None:
    """Nothing is checked."""


_FALSE_REPORTS: Final = {"hostile": True, "fault_seconds": 15.0}

IDENTITY_MUTANTS: Final = (
    Mutant(
        "claims are believed",
        "I18 identities",
        [(authenticators, "check_claim", _believes)],
        ("kill-service",),
        {"hostile": True, "fault_seconds": 10.0},
    ),
    Mutant(
        "every token is taken",
        "I18 identities",
        [(MemoryTokens, "identify", _takes_every_token)],
        ("kill-service",),
        {"hostile": True, "fault_seconds": 10.0},
    ),
    Mutant(
        "complaints of foreign clusters count",
        "I18 evidence",
        [(routes, "writing", _is_there)],
        ("kill-service",),
        _FALSE_REPORTS,
    ),
    Mutant(
        "receipts of any size count",
        "I18 evidence",
        [(routes, "check_offsets", _checks_nothing)],
        ("kill-service",),
        _FALSE_REPORTS,
    ),
    Mutant(
        "receipts count whoever has them",
        "I18 evidence",
        [(Sessions, "check_given", _checks_nothing)],
        ("move-stream",),
        _FALSE_REPORTS,
    ),
)
