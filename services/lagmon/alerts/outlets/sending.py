"""The common part of all outlets: where they are, posts with retries, and the record of their trouble."""

from collections.abc import Callable, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from braid.kernel.errors import Unavailable
from braid.kernel.limits.lagmon.alert_outlets import (
    OUTLET_POST_SECONDS,
    OUTLET_RETRY_AFTER_SECONDS_MAX,
    OUTLET_RETRY_SECONDS,
    OUTLET_TROUBLE_ATTEMPTS,
)
from braid.kernel.ports import Post, Posts, Tasks
from braid.kernel.timing.backoff import Backoff
from braid.runtime.replica import Replica
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.decisions.domain import Alerts
from services.lagmon.alerts.outlets.codec import OUTLETS
from services.lagmon.alerts.outlets.decisions.domain import Outlets
from services.lagmon.alerts.outlets.decisions.events import Command, NoteTrouble, OpenOutlet
from services.lagmon.alerts.outlets.decisions.model import Outlet, OutletTarget
from services.lagmon.alerts.outlets.gauges import OutletGauges

_REFUSALS: Final = frozenset({400, 413, 422})  # the message is wrong; every other status is about the receiver


class Outgoing(NamedTuple):
    """The outlets of the settings, and the port to them.

    Attributes:
        runbooks: Where the pages about rules are, a path or a URL.
        open_posts: Opens the port to receivers.
    """

    targets: Sequence[OutletTarget] = ()
    runbooks: str = "docs/runbooks"
    open_posts: Callable[[Tasks], Posts] | None = None


class Refused(NamedTuple):
    """A receiver's answer that a post was not taken."""

    reason: str
    is_message: bool
    after_seconds: float = 0.0


class Sending:
    """One outlet on the leader: posts with retries, and marks in the history."""

    def __init__(self, replica: Replica, posts: Posts, target: OutletTarget, gauges: OutletGauges) -> None:
        self.replica = replica
        self.target = target
        self.gauges = gauges
        self._posts = posts
        self._backoff = Backoff(replica.host, OUTLET_RETRY_SECONDS)
        self._failures = 0

    @property
    def alerts(self) -> Alerts:
        """All alerts, as this replica follows them."""
        return self.replica.aggregates.state(ALERTS, MESH)

    @property
    def outlet(self) -> Outlet | None:
        """The outlet as the history knows it."""
        return self.replica.aggregates.state(OUTLETS, MESH).known.get(self.target.name)

    async def open(self) -> Outlet:
        """Returns the outlet, and makes it known to the history if it is new."""
        while (outlet := self.outlet) is None:
            await self.record(OpenOutlet(self.target.name))
        return outlet

    async def record(self, command: Command) -> Outlets:
        """Records what a command leads to. Raises `BraidError`, also if this replica does not lead any more."""
        outcome = await self.replica.aggregates.execute(OUTLETS, MESH, command, actor=self.replica.instance)
        return outcome.state

    async def keys(self) -> Sequence[str]:
        """Reads the keys that sign posts. Raises `Unavailable`."""
        path = self.target.signing_key_file
        return await self._posts.secrets(path) if path else ()

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Refused | None:
        """Posts once; returns None if the receiver took it, else why not. Raises `NotLeader`."""
        self.replica.require_leader()  # one that was paused for long sends nothing late
        post = Post(url, body, headers, self.target.ca_file, self.target.token_file)
        try:
            answer = await self._posts.post(post, OUTLET_POST_SECONDS)
        except Unavailable as error:
            return Refused(error.message, False)
        if 200 <= answer.status < 300:
            return None
        if 300 <= answer.status < 400:
            return Refused(f"it answered {answer.status}; redirections are not followed", False)
        after = retry_seconds(answer.retry_after, self.replica.host.clock.now_ms())
        return Refused(f"it answered {answer.status}", answer.status in _REFUSALS, after)

    async def took(self, count: int) -> None:
        """Notes that the receiver took a number of notifications or alerts."""
        self._failures = 0
        self._backoff.reset()
        self.gauges.count(self.target.name, "sent", count)
        outlet = self.outlet
        if outlet is not None and outlet.trouble:
            await self.record(NoteTrouble(self.target.name, ""))
            self.replica.log.info("an outlet of alerts takes them again", outlet=self.target.name)

    async def failed(self, refused: Refused) -> None:
        """Notes a failed attempt, and waits before the next one."""
        self._failures += 1
        self.gauges.count(self.target.name, "refused" if refused.is_message else "failed", 1)
        outlet = self.outlet
        if self._failures >= OUTLET_TROUBLE_ATTEMPTS and outlet is not None and not outlet.trouble:
            self.replica.log.warning("an outlet takes no alerts", outlet=self.target.name, reason=refused.reason)
            await self.record(NoteTrouble(self.target.name, refused.reason))
        await self._backoff.wait(refused.after_seconds)


def retry_seconds(text: str, now_ms: int) -> float:
    """Reads `Retry-After`, which is seconds or a date; 0 for neither, and a bound for what is too long."""
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = parsedate_to_datetime(text).replace(tzinfo=UTC).timestamp() - now_ms / 1_000
        except (ValueError, TypeError, OverflowError):
            seconds = 0.0
    return min(max(0.0, seconds), OUTLET_RETRY_AFTER_SECONDS_MAX)
