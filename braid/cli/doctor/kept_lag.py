"""Asks each lag monitor how it keeps lag over time. Judges nothing."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.cli.core.limits import CLI_PROBE_SECONDS
from braid.cli.doctor.kept_lag_findings import KeptLagFacts
from braid.kernel.errors import BraidError

if TYPE_CHECKING:
    from braid.cli.core.session import Session
    from braid.rpc.directory import KnownEndpoint


async def ask_kept_lag(session: "Session", endpoints: Sequence["KnownEndpoint"]) -> list[KeptLagFacts]:
    """Asks every replica of lagmon. Skips those that are silent, of an older release, or closed to the caller."""
    asked = await asyncio.gather(*(_ask(session, each) for each in endpoints if each.service == "lagmon"))
    return [each for each in asked if each is not None]


async def _ask(session: "Session", known: "KnownEndpoint") -> KeptLagFacts | None:
    from braid.api.lagmon.v1.lagmon_service_pb2 import ListLagHistoryRequest, ListLagHistoryResponse
    from braid.cli.core.replicas import connected

    request = ListLagHistoryRequest(since_ms=session.now_ms - 60_000, page_size=1, own_only=True)
    try:
        async with connected(session, known) as replica:
            answer = await replica.ask("ListLagHistory", request, ListLagHistoryResponse, CLI_PROBE_SECONDS)
    except BraidError:  # other checks tell
        return None
    return KeptLagFacts(known.instance, answer.kept, answer.trouble) if answer.HasField("kept") else None
