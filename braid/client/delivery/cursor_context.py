"""The parts that all cursors of a lease share."""

from collections.abc import Callable
from typing import NamedTuple

from braid.client.delivery.dead_letter_limit import LaneBrake
from braid.client.delivery.memory_bound import LaneMemory
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.delivery.stages import LeaseLife, Settling
from braid.client.records.delivery import OwnedLease
from braid.client.records.intake_filter import IntakeFilter
from braid.client.telemetry.pathways.consuming import CursorPathways
from braid.kernel.timing.busy_time import BusyTime


class CursorContext(NamedTuple):
    """The parts with which each cursor of a lease is made.

    Attributes:
        lease: What they are cursors of.
        life: Where the work on it stands.
        topic_id: Kafka's id of its topic.
        ready: Where fetched records wait for a handler.
        settling: Who parks records, and copies them to the dlq lane.
        memory: The lane's part of the memory bound; of a cursor at the head.
        may_start: Says whether a handler may start now, where the lease's deadline decides that (exclusive).
        brake: Says whether records of the lane may be dead-lettered.
        intake: Says which records are wanted.
        busy: Counts the time of handlers.
        pathways: Makes those of a cursor, where they are followed.
    """

    lease: OwnedLease
    life: LeaseLife
    topic_id: bytes
    ready: ReadyQueue
    settling: Settling
    memory: LaneMemory
    may_start: Callable[[], bool] | None
    brake: LaneBrake
    intake: IntakeFilter
    busy: BusyTime
    pathways: Callable[[], CursorPathways] | None = None
