"""The plan of one run: its seed, its length, its settings. Everything that a seed decides before time begins is decided
here."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.simulation.scripted import Step

TWO_CLUSTERS: Final = ("east", "west")
THREE_CLUSTERS: Final = (*TWO_CLUSTERS, "north")
FAULTS_ALL: Final = (
    "kill-service",
    "kill-member",
    "kill-producer",
    "pause-service",
    "pause-member",
    "pause-producer",
    "cut-services",
    "cut-member",
    "cut-producer",
    "cut-store",
    "cut-cluster",
    "slow-link",
    "fade-member",
    "slow-store",
    "slow-appends",
    "late-append",
    "lose-answers",
    "skew-clock",
    "compact-store",
    "kill-cluster",
    "pause-cluster",
    "move-stream",
    "leave-group",
)

FEW_UNITS: Final = 40  # less than a commit with a gap takes


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one run.

    Attributes:
        seed: Decides everything.
        fault_seconds: Simulated seconds during which faults happen.
        settle_seconds: Simulated seconds in which everything must come right after healing.
        exclusive: The group's ownership.
        lease_seconds: Of its members.
        send_interval_seconds: Mean time between two records of one producer.
        handling_seconds: Longest time a handler takes.
        fault_interval_seconds: Mean time between two faults.
        faults: Kinds of faults, with repetition as weight.
        script: Faults at set times, in order, instead of random ones: a schedule that shows one thing by construction.
        clusters: The stream may be on, the best first.
        cluster_deaths_max: The registry's flap guard leaves more to a person.
        mates: Further members in some member processes; their heartbeats travel together.
        mated: How many of these processes there are.
        ordered: Whether the stream is.
        ailing: Whether nothing befalls who judges clusters and who is asked about them but what ails clusters.
        brokers: Of each cluster.
        losses: What a cluster that is to lose something may lose.
        voices: Producers in the first producer process.
        one_host: Whether all producers and members run on one.
        metadata_units: That clusters accept beside a committed offset; 0 for as many as Kafka does.
        thresholds: By which clusters' health is judged, where not by the usual ones.
        concurrency: Handlers of a member.
        poison_percent: Of the records.
        backoff_seconds: First and longest wait of a record that failed.
        bulk_seconds: Longest time a handler takes for a record of lane bulk, where not as for others; and half of it
            the shortest.
        bulk_partitions: Of lane bulk.
        flood: Lane bulk gets so many times its records during the second half of the faults; 0: no flood.
        roomy: Whether there is room for all records, whatever fails: no fault makes more of them wait.
        replays: Whether dlq services run, and somebody mends the handler and replays all dead letters.
        latecomers: Further groups that start at the earliest record while faults happen, and once they are healed.
        second_mesh: Whether another mesh wants the same clusters, and takes one of them over.
        remembers: Whether services have archives, histories are compacted every few events, and the past is asked for.
        letters: So many dead letters there are before somebody mends the handler.
        hostile: Whether somebody calls in others' names, and some prove by tokens who they are.
        approvals: Whether two people delete a group again and again, for which a policy asks for both.
        quotas: Whether an admin declares byte quotas again and again, and leaders die between their steps.
        tenants: Whether callers of a tenant want more groups than its quota, and give up on calls.
    """

    seed: int
    fault_seconds: float = 60.0
    settle_seconds: float = 60.0
    exclusive: bool = False
    lease_seconds: float = 3.0
    send_interval_seconds: float = 0.25
    handling_seconds: float = 0.05
    fault_interval_seconds: float = 2.5
    faults: Sequence[str] = FAULTS_ALL
    script: Sequence[Step] = ()
    clusters: Sequence[str] = TWO_CLUSTERS
    cluster_deaths_max: int = 2
    losses: tuple[str, ...] = ("empties", "replaces", "cuts")
    mates: int = 0
    mated: int = 1
    ordered: bool = False
    ailing: bool = False
    brokers: int = 1
    voices: int = 1
    one_host: bool = False
    metadata_units: int = 0
    thresholds: Mapping[str, float] = field(default_factory=dict)
    concurrency: int = 8
    poison_percent: int = 2
    backoff_seconds: tuple[float, float] = (0.05, 0.5)
    bulk_seconds: float = 0.0
    bulk_partitions: int = 2
    flood: float = 0.0
    roomy: bool = False
    replays: bool = False
    letters: int = 12
    latecomers: Sequence[str] = ()
    second_mesh: bool = False
    remembers: bool = False
    hostile: bool = False
    approvals: bool = False
    quotas: bool = False
    tenants: bool = False


def plan_of(seed: int, fault_seconds: float = 60.0) -> Plan:
    """The plan a seed stands for: half the seeds use every kind of fault, the others a few kinds only."""
    dice = random.Random(f"plan/{seed}")
    faults = FAULTS_ALL if seed % 2 else tuple(dice.sample(FAULTS_ALL, dice.randint(2, 6)))
    planned = Plan(
        seed,
        fault_seconds,
        exclusive=dice.random() < 0.4,
        lease_seconds=dice.choice((1.0, 3.0)),
        handling_seconds=dice.choice((0.01, 0.05, 0.4)),
        fault_interval_seconds=dice.choice((1.5, 2.5, 5.0)),
        faults=faults,
        mates=dice.choice((0, 0, 1, 2)),
    )
    splits = ("split-lease",) * dice.choice((0, 0, 1, 4))
    sinks = ("sink-away",) * random.Random(f"sinks/{seed}").choice((0, 0, 1, 3))
    remembers = random.Random(f"past/{seed}").random() < 0.2
    third = random.Random(f"clusters/{seed}").random() < 0.3
    return replace(
        planned,
        faults=(*faults, *splits, *sinks),
        metadata_units=dice.choice((0, 0, FEW_UNITS)),
        clusters=THREE_CLUSTERS if third else TWO_CLUSTERS,
        remembers=remembers,
    )
