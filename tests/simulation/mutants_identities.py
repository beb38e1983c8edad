"""Mutants of who calls: see `mutants`."""

from typing import Final

from braid.kernel.ports import Identity, Shown
from braid.rpc import authenticators
from braid.rpc.memory.tokens import MemoryTokens
from tests.simulation.mutants import Mutant


def _believes(claimed: str, verified: str) -> None:
    """Nothing is checked."""


async def _takes_every_token(self: MemoryTokens, shown: Shown) -> Identity | None:
    return Identity("jwt:somebody") if shown.bearer else None


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
)
