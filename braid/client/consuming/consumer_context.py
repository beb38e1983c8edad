"""Parts of a consumer that all its leases share."""

from typing import NamedTuple

from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.background import Background
from braid.client.delivery.dead_letter_limit import Brakes
from braid.client.delivery.memory_bound import MemoryBound
from braid.client.delivery.ready_queue import ReadyQueue
from braid.client.handling.dead_letters import DeadLetters
from braid.client.handling.retries import Retries
from braid.client.telemetry.pathways.consuming import ReceivedPathways
from braid.kernel.ports import Host


class ConsumerContext(NamedTuple):
    """Parts of a consumer that its leases, and the clusters they lie on, are worked with.

    Attributes:
        host: Clock, randomness and tasks.
        settings: The application's.
        zone: Where the consumer runs.
        background: Runs what ends with the consumer, and hears why it cannot go on.
        ready: Where fetched records wait for a handler.
        memory: Bounds what is fetched and not done.
        retries: Parks records until their next attempt.
        dead_letters: Copies records to the dlq lane.
        brakes: Say whether more records of a lane may be dead-lettered.
        pathways: Measures pathways of records, where they are followed.
    """

    host: Host
    settings: ConsumerSettings
    zone: str
    background: Background
    ready: ReadyQueue
    memory: MemoryBound
    retries: Retries
    dead_letters: DeadLetters
    brakes: Brakes
    pathways: ReceivedPathways | None = None
