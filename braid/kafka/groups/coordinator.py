"""Requests to a group's coordinator on a real cluster, sent again while the coordinator moves or loads."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from aiokafka.protocol.api import Request, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest

from braid.kafka.errors import COORDINATOR_RETRY, check
from braid.kafka.permissions import Need
from braid.kafka.protocol.wire import Wire, bounded
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.kafka import KAFKA_ANSWER_BACKOFF_SECONDS, KAFKA_CALL_SECONDS

_GROUP_COORDINATOR = 0
_OPERATIONS = {"read": "Describe", "describe": "Describe", "list": "Describe", "delete": "Delete"}  # else Read


class Coordinators:
    """The coordinators of groups, remembered until a broker says that it is another."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._known: dict[str, int] = {}

    async def ask(
        self,
        group: str,
        request: Request,
        codes: Callable[[Response], Iterable[int]],
        verb: str,
        retried: Collection[int] = COORDINATOR_RETRY,
    ) -> Response:
        """Asks the group's coordinator, again while it answers one of the `retried` codes, within one call's bound.

        Raises:
            ClusterUnavailable: no answer in time; the request may have had its effect.
        """
        async with bounded(KAFKA_CALL_SECONDS, f"{verb} of group {group}"):
            while True:
                coordinator = await self._coordinator(group, Need(_OPERATIONS.get(verb, "Read"), group=group))
                try:
                    answer = await self._wire.ask(coordinator, request)
                except ClusterUnavailable:
                    self._known.pop(group, None)
                    raise
                if not set(retried).intersection(codes(answer)):
                    return answer
                self._known.pop(group, None)
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)

    async def close(self) -> None:
        """Frees connections."""
        await self._wire.close()

    async def _coordinator(self, group: str, need: Need) -> int:
        while group not in self._known:
            answer = await self._wire.ask_any(FindCoordinatorRequest(group, _GROUP_COORDINATOR))
            if answer.error_code in COORDINATOR_RETRY:
                await asyncio.sleep(KAFKA_ANSWER_BACKOFF_SECONDS)
                continue
            check(answer.error_code, f"the coordinator of group {group}", need=need)
            self._known[group] = answer.coordinator_id
        return self._known[group]
