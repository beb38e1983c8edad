"""Producers' reports about a log that was cut while they wrote there."""

from braid.api.registry.v1.route_pb2 import LogResumed
from braid.api.registry.v1.route_pb2 import Resumption as ResumptionMessage

TOPIC, CHANNEL = "braid.logs.live.1", "logs/live/1"


def resumed(*told: tuple[int, int, int, int]) -> LogResumed:
    """The message about each (partition, first offset, next offset, offset it went on at)."""
    resumptions = [
        ResumptionMessage(partition=partition, first_offset=first, next_offset=next, resumed_offset=resumed)
        for partition, first, next, resumed in told
    ]
    return LogResumed(channel=CHANNEL, resumptions=resumptions)
