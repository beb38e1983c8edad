"""Whether an ordered stream is: nothing of a channel is handled while an older one of its lane still drains."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, Folded, HandlerStarted
from tests.simulation.applications import STREAM


class KeptOrder(Instant):
    """Held to the newest state of the stream that any replica folded.

    It reads who left the route when, and knows nothing of the service's own idea of waiting.
    """

    invariant = "order: older channels first"
    heeds: Sequence[type] = (Folded, HandlerStarted)

    def __init__(self) -> None:
        self._sequence = 0
        self._channels: Mapping[str, Any] = {}

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, Folded):
            if (fact.history.kind, fact.history.id) == ("stream", STREAM) and fact.sequence > self._sequence:
                self._sequence = fact.sequence
                self._channels = {each["topic"]: each for each in json.loads(fact.state)["channels"]}
        elif isinstance(fact, HandlerStarted):
            yield from self._too_early(fact)

    def _too_early(self, fact: HandlerStarted) -> Iterator[str]:
        handled = self._channels.get(fact.log.topic)
        if handled is None or handled["released"] or handled["ref"][0] == "dlq":
            return
        left = handled["drain_revision"] or float("inf")  # it is on the route yet
        for topic, each in self._channels.items():
            beside = each["ref"][0] == handled["ref"][0] and topic != fact.log.topic
            if beside and each["state"] == "DRAINING" and each["drain_revision"] < left:
                yield f"{fact.process} handles a record of {fact.log.topic} while {topic} still drains"
