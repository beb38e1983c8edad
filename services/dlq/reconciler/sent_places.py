"""Facts about target logs and groups, read before a batch is sent, by which handled letters can be proved later.

The facts may be old. Old facts prove less, but never something false.
"""

import asyncio
from collections.abc import Collection, Mapping

from braid.client.records.outgoing import Receipt
from braid.kernel.errors import BraidError
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.dlq import REPLAY_LOOK_SECONDS, REPLAY_LOOK_WAIT_SECONDS
from braid.kernel.ports import Clock, TopicDescription
from services.dlq.model.channels import ChannelView, Presence
from services.dlq.model.group_standing import GroupStanding
from services.dlq.model.letters import Letter
from services.dlq.model.sent_letters import SentLetter, SentTarget, letter_mark
from services.dlq.peers import ChannelFollower, Groups
from services.dlq.reconciler.cluster_clients import ClusterClients


class SentPlaces:
    """Facts about the topics of one stream and about groups, from before a batch is sent."""

    def __init__(
        self, clock: Clock, clients: ClusterClients, follower: ChannelFollower, groups: Groups, stream: str
    ) -> None:
        self._clock = clock
        self._clients = clients
        self._follower = follower
        self._groups = groups
        self._stream = stream
        self._topics: dict[tuple[str, str], TopicDescription] = {}  # by cluster and name
        self._standings: dict[str, GroupStanding] = {}
        self._asked: set[str] = set()  # groups, since the last look
        self._view: ChannelView | None = None
        self._next_look = 0.0

    async def look(self, groups: Collection[str]) -> None:
        """Reads the facts about possible targets of these groups, unless they were read recently.

        If a source does not answer within `REPLAY_LOOK_WAIT_SECONDS`, its last known facts stay.
        """
        view, now = self._follower.view, self._clock.elapsed()
        if view is None:
            return
        wanted: Mapping[str, list[str]] = {}
        if view is not self._view or now >= self._next_look:
            self._view, self._next_look = view, now + REPLAY_LOOK_SECONDS
            self._asked.clear()
            wanted = self._wanted(view)
        missing = set(groups) - self._asked
        self._asked |= missing
        looks = [self._look_at(view, cluster, topics) for cluster, topics in wanted.items()]
        try:
            async with asyncio.timeout(REPLAY_LOOK_WAIT_SECONDS):
                await asyncio.gather(*looks, *(self._ask(group) for group in sorted(missing)))
        except TimeoutError:
            return

    def sent(self, letter: Letter, receipt: Receipt) -> SentLetter | None:
        """The target that a letter was sent to; None if commits of its group could prove nothing later."""
        topic = self._topics.get((receipt.cluster, receipt.topic))
        group = self._standings.get(letter.group)
        if topic is None or group is None or not group.fenced or receipt.partition >= len(topic.leader_epochs):
            return None
        target = SentTarget(
            receipt.cluster,
            receipt.topic,
            receipt.partition,
            topic.topic_id,
            topic.leader_epochs[receipt.partition],
            letter.group,
            group.resets,
        )
        return SentLetter(letter.place.cursor, letter_mark(letter), target, receipt.offset)

    def _wanted(self, view: ChannelView) -> Mapping[str, list[str]]:
        topics: dict[str, list[str]] = {}
        for each in view.channels.values():
            if (each.stream, each.presence) == (self._stream, Presence.READABLE) and each.lane != DLQ_LANE:
                topics.setdefault(each.cluster, []).append(each.topic)
        return topics

    async def _look_at(self, view: ChannelView, cluster: str, topics: list[str]) -> None:
        if cluster not in view.clusters:
            return
        try:
            found = await self._clients.client(view.clusters[cluster]).admin.describe_topics(topics)
        except BraidError:  # nothing can be proved of what is sent there meanwhile
            return
        self._topics |= {(cluster, name): topic for name, topic in found.items()}

    async def _ask(self, group: str) -> None:
        try:
            standing = await self._groups.standing(group, REPLAY_LOOK_WAIT_SECONDS)
        except BraidError:  # the assigner is away: its letters stay replayed
            return
        if standing is None:
            self._standings.pop(group, None)
        else:
            self._standings[group] = standing
