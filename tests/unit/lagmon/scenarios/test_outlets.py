"""Outlets of replicas on virtual time: told in time, once, in spite of receivers and leaders that fail."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from braid.api.lagmon.v1 import alert_pb2
from braid.kernel.errors import Unavailable
from braid.kernel.ports import Post, PostAnswer, RpcService
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.methods import service_path
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.lagmon.alerts.codec import ALERTS, MESH
from services.lagmon.alerts.decisions.events import Command, CreateSilence, Firing, RecordChanges
from services.lagmon.alerts.decisions.model import AlertKey, Severity
from services.lagmon.alerts.outlets.codec import OUTLETS
from services.lagmon.alerts.outlets.decisions.model import OutletKind, OutletTarget
from services.lagmon.alerts.outlets.outlets import AlertOutlets
from services.lagmon.alerts.outlets.sending import Outgoing
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

Answer = Callable[[Post], Awaitable[PostAnswer]]
KEY = AlertKey("group-unattended", "logs", "", "live", "g")
PAGER = OutletTarget("pager", OutletKind.WEBHOOK, "https://pager.test/hook")
OTHER = OutletTarget("other", OutletKind.WEBHOOK, "https://other.test/hook")
MANAGER = OutletTarget("am", OutletKind.ALERTMANAGER, "https://am.test/")


class Taken(NamedTuple):
    """A post that came to a receiver, and when."""

    at: float
    host: str
    body: Any
    headers: dict[str, str]


class Receivers:
    """The servers behind all outlets; each answers 200 unless a test says otherwise."""

    def __init__(self) -> None:
        self.came: list[Taken] = []
        self.answers: dict[str, Answer] = {}

    async def post(self, post: Post, seconds: float) -> PostAnswer:
        """See `Posts`."""
        host = post.url.split("/")[2].split(".")[0]
        at = running_loop().time()
        self.came.append(Taken(at, host, json.loads(post.body), dict(post.headers)))
        try:
            async with asyncio.timeout(seconds):
                return await self.answers[host](post) if host in self.answers else PostAnswer(200)
        except TimeoutError:
            raise Unavailable("it did not answer") from None

    async def secrets(self, path: str) -> Sequence[str]:
        """See `Posts`."""
        raise AssertionError(path)

    def types(self, host: str = "pager") -> list[str]:
        """Types of the events that a webhook got, in order, repeats too."""
        return [each.body["type"].removeprefix("braid.alert.") for each in self.came if each.host == host]

    def ids(self, host: str = "pager") -> list[str]:
        """Ids of the events that a webhook got."""
        return [each.body["id"] for each in self.came if each.host == host]


def answering(status: int, retry_after: str = "") -> Answer:
    """Answers of one status."""

    async def answer(post: Post) -> PostAnswer:
        return PostAnswer(status, retry_after)

    return answer


async def hanging(post: Post) -> PostAnswer:
    """No answer."""
    await asyncio.sleep(1e6)
    raise AssertionError


class Sender:
    """A lag monitor that only has the histories of alerts and outlets: tests fire and resolve."""

    name = "lagmon"
    kinds: Mapping[str, AnyKind] = {ALERTS.name: ALERTS, OUTLETS.name: OUTLETS}

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self.outlets: AlertOutlets | None = None

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service`."""
        self.outlets = AlertOutlets(replica, self._outgoing)
        return RpcService(service_path(self.name), {}, {}, {})

    async def lead(self, replica: Replica) -> None:
        """Sends."""
        assert self.outlets is not None
        await self.outlets.lead()
        await replica.host.clock.sleep(1e9)

    async def follow(self, replica: Replica) -> None:
        """Nothing to do."""
        await replica.host.clock.sleep(1e9)


class Scene:
    """Replicas over one store, with one alert that a test makes and ends."""

    def __init__(self, receivers: "Receivers", targets: Sequence[OutletTarget]) -> None:
        self.receivers = receivers
        self.clock = VirtualProcess(running_loop(), "test", 1).host.clock
        self._server = MemoryStoreServer(self.clock)
        self._outgoing = Outgoing(targets, "docs/runbooks", lambda tasks: receivers)
        self.network = MemoryNetwork(self.clock, VirtualProcess(running_loop(), "net", 1).host.randomness)
        self.alive: dict[str, tuple[VirtualProcess, Replica, Sender]] = {}

    async def start(self, instance: str) -> None:
        """Starts a replica and waits until it serves."""
        process = VirtualProcess(running_loop(), instance, 1)
        process.on_kill(lambda: self.network.kill(instance))
        sender = Sender(self._outgoing)
        store, transport = MemoryStore(process.host, self._server), MemoryTransport(self.network, instance)
        replica = Replica(sender, process.host, store, transport, address=f"{instance}:1", instance=instance)
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()
        self.alive[instance] = process, replica, sender

    @property
    def leader(self) -> tuple[VirtualProcess, Replica, Sender]:
        """Whichever leads."""
        return next(each for each in self.alive.values() if each[1].leading())

    async def record(self, command: Command) -> None:
        """Appends what a command leads to."""
        await self.leader[1].aggregates.execute(ALERTS, MESH, command, actor="ann")

    async def fire(self) -> None:
        """The alert fires; what follows at once has happened when this returns."""
        await self.record(RecordChanges([Firing(KEY, Severity.PAGE, "why")]))
        await self.clock.sleep(2)

    async def end(self) -> None:
        """The alert is resolved; what follows at once has happened when this returns."""
        await self.record(RecordChanges(resolved=[(KEY.name, "over")]))
        await self.clock.sleep(2)

    async def silence(self, seconds: int) -> None:
        """Silences the alert."""
        await self.record(CreateSilence(KEY.name, seconds * 1_000, "known"))

    def kill(self) -> None:
        """The leader is gone."""
        process, replica, _ = self.leader
        process.kill()
        del self.alive[replica.instance]

    def shown(self) -> list[alert_pb2.AlertOutlet]:
        """The outlets as the leader lists them."""
        outlets = self.leader[2].outlets
        assert outlets is not None
        return outlets.messages()


def play(scene: Callable[[Scene], Coroutine[Any, Any, None]], *targets: OutletTarget, replicas: int = 1) -> None:
    async def run() -> None:
        at = Scene(Receivers(), targets or (PAGER,))
        for number in range(replicas):
            await at.start(f"lagmon-{number}")
        await at.clock.sleep(5)
        await scene(at)

    run_virtual(run())


def test_a_webhook_is_told_once_that_an_alert_fired_and_is_over() -> None:
    async def scene(at: Scene) -> None:
        await at.fire()
        await at.clock.sleep(2)
        assert at.receivers.types() == ["fired"]
        assert at.receivers.came[0].headers["webhook-id"] == at.receivers.ids()[0]
        await at.clock.sleep(120)
        await at.end()
        await at.clock.sleep(120)
        assert at.receivers.types() == ["fired", "resolved"]
        assert [(each.name, each.kind, each.waiting) for each in at.shown()] == [("pager", "webhook", 0)]

    play(scene)


def test_a_leader_killed_before_it_notes_leaves_a_repeat() -> None:
    async def scene(at: Scene) -> None:
        async def kill(post: Post) -> PostAnswer:  # the receiver has it, and the leader never hears so
            del at.receivers.answers["pager"]
            at.kill()
            return PostAnswer(200)

        at.receivers.answers["pager"] = kill
        await at.fire()
        await at.clock.sleep(10)
        assert at.receivers.types() == ["fired", "fired"]
        assert len(set(at.receivers.ids())) == 1
        await at.end()
        await at.clock.sleep(10)
        assert at.receivers.types() == ["fired", "fired", "resolved"]

    play(scene, replicas=2)


def test_a_new_leader_repeats_nothing_that_was_noted() -> None:
    async def scene(at: Scene) -> None:
        await at.fire()
        await at.clock.sleep(5)
        at.kill()
        await at.clock.sleep(60)
        assert at.receivers.types() == ["fired"]
        await at.end()
        await at.clock.sleep(5)
        assert at.receivers.types() == ["fired", "resolved"]

    play(scene, replicas=2)


def test_what_came_and_went_while_nobody_answered_is_told() -> None:
    async def scene(at: Scene) -> None:
        at.receivers.answers["pager"] = answering(503)
        await at.fire()
        await at.end()
        first = at.receivers.ids()[0]
        del at.receivers.answers["pager"]
        await at.clock.sleep(120)
        assert at.receivers.types()[-2:] == ["fired", "resolved"]
        assert set(at.receivers.ids()[:-1]) == {first}

    play(scene)


def test_a_webhook_that_hangs_delays_nothing_else() -> None:
    async def scene(at: Scene) -> None:
        at.receivers.answers["pager"] = hanging
        began = at.clock.elapsed()
        await at.fire()
        await at.record(CreateSilence("cluster/east/cluster-down", 60_000, "decided while it hangs"))
        assert at.clock.elapsed() - began < 2.1
        assert at.receivers.types("other") == ["fired"]
        assert {each.host for each in at.receivers.came} == {"pager", "other", "am"}
        await at.clock.sleep(60)
        pager, other, _ = at.shown()
        assert (pager.trouble, pager.waiting, other.trouble) == ("it did not answer", 1, "")
        del at.receivers.answers["pager"]
        await at.clock.sleep(120)
        pager = at.shown()[0]
        assert (pager.trouble, pager.waiting) == ("", 0)

    play(scene, PAGER, OTHER, MANAGER)


def test_failures_are_retried_seldom_and_as_the_receiver_asks() -> None:
    async def scene(at: Scene) -> None:
        at.receivers.answers["pager"] = answering(500)
        await at.fire()
        await at.clock.sleep(600)
        times = [each.at for each in at.receivers.came]
        pauses = [after - before for before, after in pairwise(times)]
        assert len(times) < 20 and max(pauses) <= 61 and pauses[0] < 2 < pauses[3]
        at.receivers.answers["pager"] = answering(429, "100")
        await at.clock.sleep(61)
        count = len(at.receivers.came)
        del at.receivers.answers["pager"]
        await at.clock.sleep(95)
        assert len(at.receivers.came) == count
        await at.clock.sleep(70)
        assert len(at.receivers.came) == count + 1

    play(scene)


def test_a_refused_message_holds_up_the_next_ones_briefly() -> None:
    async def scene(at: Scene) -> None:
        async def refuse_first(post: Post) -> PostAnswer:
            return PostAnswer(400 if b"alert.fired" in post.body else 200)

        at.receivers.answers["pager"] = refuse_first
        await at.fire()
        await at.end()
        await at.clock.sleep(60)
        assert at.receivers.types() == ["fired"] * 5 + ["resolved"]

    play(scene)


def test_a_redirection_is_a_failure() -> None:
    async def scene(at: Scene) -> None:
        at.receivers.answers["pager"] = answering(307)
        await at.fire()
        await at.clock.sleep(20)
        assert "redirections are not followed" in at.shown()[0].trouble

    play(scene)


def test_nobody_is_told_of_an_alert_that_is_silenced() -> None:
    async def scene(at: Scene) -> None:
        await at.silence(600)
        await at.fire()
        await at.clock.sleep(30)
        await at.end()
        await at.clock.sleep(1_200)
        assert at.receivers.types() == []
        assert at.receivers.came  # the Alertmanager is told that it is over, which pages nobody
        assert all(alert["annotations"]["resolve_reason"] for each in at.receivers.came for alert in each.body)

    play(scene, PAGER, MANAGER)


def test_a_silence_is_told_and_the_alert_again_when_it_ends() -> None:
    async def scene(at: Scene) -> None:
        await at.fire()
        await at.clock.sleep(5)
        await at.silence(60)
        await at.clock.sleep(30)
        assert at.receivers.types() == ["fired", "silenced"]
        await at.clock.sleep(60)
        assert at.receivers.types() == ["fired", "silenced", "fired"]
        assert len(set(at.receivers.ids())) == 3

    play(scene)


def test_an_alertmanager_is_sent_each_minute_what_fires() -> None:
    async def scene(at: Scene) -> None:
        await at.fire()
        await at.clock.sleep(130)
        times = [each.at for each in at.receivers.came]
        assert [round(after - before, -1) for before, after in pairwise(times)] == [60, 60]
        await at.end()
        await at.clock.sleep(3)
        last = at.receivers.came[-1]
        assert last.body[0]["annotations"]["resolve_reason"]
        await at.clock.sleep(1_000)
        assert at.receivers.came[-1].at < last.at + 910

    play(scene, MANAGER)


def test_a_new_leader_sends_to_an_alertmanager_at_once() -> None:
    async def scene(at: Scene) -> None:
        await at.fire()
        await at.clock.sleep(5)
        count = len(at.receivers.came)
        at.kill()
        await at.clock.sleep(10)
        assert len(at.receivers.came) == count + 1

    play(scene, MANAGER, replicas=2)


def test_each_notification_takes_two_events() -> None:
    async def scene(at: Scene) -> None:
        aggregates = at.leader[1].aggregates
        assert aggregates.sequence(OUTLETS, MESH) == 1  # opened
        await at.fire()
        await at.clock.sleep(30)
        assert aggregates.sequence(OUTLETS, MESH) == 3

    play(scene)


def test_a_paused_leader_sends_nothing_late() -> None:
    async def scene(at: Scene) -> None:
        at.receivers.answers["pager"] = answering(503)
        await at.fire()
        process, replica, _ = at.leader
        process.pause()
        at.alive.pop(replica.instance)
        await at.clock.sleep(30)
        del at.receivers.answers["pager"]
        await at.clock.sleep(120)
        assert at.receivers.types()[-1] == "fired"
        count = len(at.receivers.came)
        process.resume()
        await at.clock.sleep(120)
        assert len(at.receivers.came) == count

    play(scene, replicas=2)
