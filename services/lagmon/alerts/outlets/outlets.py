"""All outlets of one replica: the tasks that send while it leads, and how each of them is."""

from braid.api.lagmon.v1 import alert_pb2 as pb
from braid.kernel.limits.lagmon.alert_outlets import OUTLET_LOOK_SECONDS
from braid.runtime.replica import Replica
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.outlets.alertmanager import AlertmanagerSender
from services.lagmon.alerts.outlets.codec import OUTLETS
from services.lagmon.alerts.outlets.decisions.model import Outlet, OutletKind, due_notifications
from services.lagmon.alerts.outlets.gauges import OutletGauges
from services.lagmon.alerts.outlets.sending import Outgoing, Sending
from services.lagmon.alerts.outlets.webhook import WebhookSender


class AlertOutlets:
    """The outlets that the settings of one replica name."""

    def __init__(self, replica: Replica, outgoing: Outgoing) -> None:
        self._replica = replica
        self._outgoing = outgoing
        self._gauges = OutletGauges(replica.metrics)

    async def lead(self) -> None:
        """Sends to all outlets, each in a task of its own, until cancelled. None delays another one, or a decision."""
        targets, open_posts = self._outgoing.targets, self._outgoing.open_posts
        if not targets or open_posts is None:
            return
        spawn = self._replica.host.tasks.spawn
        posts = open_posts(self._replica.host.tasks)
        tasks = []
        for target in targets:
            sending = Sending(self._replica, posts, target, self._gauges)
            kind = WebhookSender if target.kind is OutletKind.WEBHOOK else AlertmanagerSender
            tasks.append(spawn(kind(sending, self._outgoing.runbooks).run(), f"outlet {target.name}"))
        try:
            await self._show()
        finally:
            for task in tasks:
                task.cancel()
            self._gauges.show({}, {})

    def messages(self) -> list[pb.AlertOutlet]:
        """Builds the messages of all outlets, as this replica follows their history."""
        return [
            pb.AlertOutlet(
                name=target.name,
                kind=target.kind.value,
                trouble=outlet.trouble,
                trouble_since_ms=outlet.trouble_ms,
                waiting=self._waiting(outlet) if target.kind is OutletKind.WEBHOOK else 0,
            )
            for target in self._outgoing.targets
            for outlet in [self._known(target.name)]
        ]

    async def _show(self) -> None:
        while True:
            outlets = {each.name: self._known(each.name) for each in self._outgoing.targets}
            webhooks = [each.name for each in self._outgoing.targets if each.kind is OutletKind.WEBHOOK]
            waiting = {name: self._waiting(outlets[name]) for name in webhooks}
            self._gauges.show({name: bool(each.trouble) for name, each in outlets.items()}, waiting)
            await self._replica.host.clock.sleep(OUTLET_LOOK_SECONDS)

    def _known(self, name: str) -> Outlet:
        return self._replica.aggregates.state(OUTLETS, MESH).known.get(name) or Outlet(0)

    def _waiting(self, outlet: Outlet) -> int:
        if not outlet.since_ms:  # no leader served it yet
            return 0
        now_ms = self._replica.host.clock.now_ms()
        return len(due_notifications(outlet, self._replica.aggregates.state(ALERTS, MESH), now_ms))
