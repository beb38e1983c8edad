"""Whether traffic on an ailing cluster finds an answer in time: it moves, or is told to have nowhere to go, truly."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Acknowledged, Committed, Fact, Folded

ANSWER_SECONDS: Final = 8.0  # a topic that is never made is waited for, a registry is late: then there is an answer
_ILL: Final = ("DOWN", "SLOW")
_MAY_BE_FULL: Final = ("headroom", "by hand")  # reasons that a cluster's health says nothing of


class AnsweredTrouble(Instant):
    """No channel carries traffic on a cluster called down or slow for long, unless no other cluster is healthy.

    And then its stream says so. It reads states as they are folded, and knows nothing of spares.
    """

    invariant = "traffic in trouble is answered"
    heeds: Sequence[type] = (Folded, Acknowledged, Committed)

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the time of the run."""
        self._now = now
        self._seen: dict[tuple[str, str], int] = {}
        self._health: dict[str, tuple[str, float]] = {}  # of each cluster, and since when
        self._streams: dict[str, Mapping[str, Any]] = {}
        self._since: dict[tuple[str, str], float] = {}  # that a channel should be elsewhere
        self._silent: dict[tuple[str, str], float] = {}  # that nothing is said about it either

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        if isinstance(fact, Folded) and fact.history.service == "registry":
            self._read(fact)
        for at, said in ((self._since, "has a healthy place to go"), (self._silent, "says nothing")):
            for (stream, channel), since in at.items():
                if self._now() - since > ANSWER_SECONDS:
                    yield f"{stream}/{channel} stays for {self._now() - since:.1f} s, and {said}"

    def _read(self, fact: Folded) -> None:
        key = fact.history.kind, fact.history.id
        if fact.sequence <= self._seen.get(key, 0):
            return
        self._seen[key], state = fact.sequence, json.loads(fact.state)
        if fact.history.kind == "stream":
            self._streams[fact.history.id] = state
        else:
            health = "CLOSED" if state["cordoned"] or state["decommissioning"] else str(state["health"])
            if self._health.get(fact.history.id, ("", 0.0))[0] != health:
                self._health[fact.history.id] = health, self._now()
        self._judge()

    def _judge(self) -> None:
        """Notes since when each channel in trouble could have left, and since when it should be told that it cannot."""
        now, could, silent = self._now(), dict(self._since), dict(self._silent)
        self._since, self._silent = {}, {}
        healthy = [name for name, (health, _) in self._health.items() if health == "HEALTHY"]
        for name, stream in self._streams.items():
            for channel in stream["channels"]:
                if channel["state"] != "ACTIVE" or self._health.get(channel["cluster"], ("", 0.0))[0] not in _ILL:
                    continue
                key, told = (name, "/".join(map(str, channel["ref"]))), stream["blocked"].get(channel["cluster"], "")
                if not told:
                    self._silent[key] = silent.get(key, now)
                if healthy and not any(each in told for each in _MAY_BE_FULL):
                    self._since[key] = could.get(key, now)
