"""Faults of Kafka clusters: they die, lose records, become slow or deny access. The checkers are told what ails one."""

from collections.abc import Callable
from typing import Final

from tests.simulation.ailments import GASP_SECONDS, Ailment, Ailments
from tests.simulation.faults.schedule import Schedule
from tests.simulation.losing import Losing
from tests.simulation.observed import ObservedCluster
from tests.simulation.world import PRODUCERS

APART_SECONDS: Final = 6.0  # everybody has written everywhere again by then


class ClusterFaults:
    """Faults of clusters; each method is a kind of fault."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._world, self._dice = schedule, schedule.world, schedule.dice
        self._ailments = Ailments(self._world, self._dice)
        self._losing = Losing(self._world, self._dice)
        self._deaths = 0
        self._shortened_at = -APART_SECONDS

    def kill_cluster(self) -> None:
        name = self._dice.choice(self._world.plan.clusters)
        cluster = self._world.kafka.named(name)
        if cluster.running and self._deaths < self._world.plan.cluster_deaths_max:
            self._deaths += 1
            cluster.kill()
            self._ail("dead", name, f"kill cluster {name}", self._dice.uniform(1.0, 25.0), cluster.start)

    def lose_cluster(self) -> None:
        """A cluster dies, and returns without some of what it had acknowledged."""
        self._lose(self._losing.loss, 6.0, 25.0)

    def shorten_logs(self) -> None:
        """The same so soon that nobody has left it, and its logs are written on.

        Not twice in a row: who wrote nothing in between but what the second took cannot tell that it is gone.
        """
        now = self._world.host.clock.elapsed()
        if now < self._shortened_at + APART_SECONDS:
            return
        self._shortened_at = now
        self._lose(self._losing.tails, 0.3, 1.2)

    def _lose(
        self, drawn: Callable[[ObservedCluster], tuple[str, Callable[[], None]]], least: float, most: float
    ) -> None:
        cluster = self._losing.victim()
        if cluster is not None and self._deaths < self._world.plan.cluster_deaths_max:
            self._deaths += 1
            cluster.kill()
            text, lose = drawn(cluster)

            def heal() -> None:
                lose()
                cluster.start()

            self._ail(
                "dead", cluster.name, f"kill cluster {cluster.name}; {text}", self._dice.uniform(least, most), heal
            )

    def reassign_replicas(self) -> None:
        """An operator drops replicas, or elects preferred leaders: epochs grow, and nothing is lost."""
        cluster = self._losing.victim()
        if cluster is not None:
            self._world.journal.say(f"FAULT {self._losing.reassign(cluster)}")

    def pause_cluster(self) -> None:
        name = self._dice.choice(self._world.plan.clusters)
        cluster = self._world.kafka.named(name)
        if cluster.running and not cluster.paused and self._deaths < self._world.plan.cluster_deaths_max:
            self._deaths += 1
            cluster.pause()
            self._ail("dead", name, f"pause cluster {name}", self._dice.uniform(0.3, 8.0), cluster.resume)

    def _ail(self, ailment: str, cluster: str, text: str, seconds: float, heal: Callable[[], None]) -> None:
        """A fault that a cluster's health may show."""
        self._schedule.begin(text, seconds, self._ailments.noted(ailment, cluster, heal))

    def blink_cluster(self) -> None:
        """A pause as collectors of garbage make them: nothing may follow from it."""
        blink = self._ailments.blink()
        self._schedule.begin(blink.text, blink.seconds, blink.heal)

    def gasp_cluster(self) -> None:
        """A longer one, which makes a suspect."""
        gasp = self._ailments.blink(GASP_SECONDS)
        self._schedule.begin(gasp.text, gasp.seconds, gasp.heal)

    def stall_registry(self) -> None:
        """The leading registry is late, and no cluster is to blame."""
        stall = self._ailments.stall()
        self._schedule.begin(stall.text, stall.seconds, stall.heal)

    def slow_cluster(self) -> None:
        self._ail_as(self._ailments.slow())

    def stop_broker(self) -> None:
        self._ail_as(self._ailments.broker())

    def cut_registries(self) -> None:
        self._ail_as(self._ailments.cut("registry", "registry"))

    def cut_producers(self) -> None:
        self._ail_as(self._ailments.cut("producer", "producer"))

    def cut_members(self) -> None:
        self._ail_as(self._ailments.cut("member", "member"))

    def cut_applications(self) -> None:
        self._ail_as(self._ailments.cut("producer", "producer", "member"))

    def deny_voices(self) -> None:
        self._ail_as(self._ailments.deny(PRODUCERS[0]))

    def deny_applications(self) -> None:
        self._ail_as(self._ailments.deny("producer", "member"))

    def deny_registries(self) -> None:
        self._ail_as(self._ailments.deny("registry"))

    def fill_cluster(self) -> None:
        self._ail_as(self._ailments.full())

    def cut_voices(self) -> None:
        self._ail_as(self._ailments.cut("producer", PRODUCERS[0]))

    def _ail_as(self, ailment: Ailment) -> None:
        self._ail(ailment.kind, ailment.cluster, ailment.text, ailment.seconds, ailment.heal)
