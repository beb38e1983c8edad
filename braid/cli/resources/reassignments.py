"""Changes of a channel's number of copies as text."""

from braid.api.registry.v1 import stream_pb2
from braid.cli.resources.clusters.loads import bytes_text


def copies_text(channel: stream_pb2.Channel) -> str:
    """The progress of a reassignment."""
    if not channel.HasField("reassignment"):
        return ""
    told = channel.reassignment
    if not told.replication_factor:
        return f"copies: {told.waits_for}"
    before = f"{channel.replication_factor} " if channel.replication_factor else ""
    text = f"copies {before}to {told.replication_factor}: {told.partitions_left} partitions left"
    if told.throttle_bytes_per_s:
        text += f", at most {bytes_text(told.throttle_bytes_per_s)}/s"
    return f"{text}; {told.waits_for}" if told.waits_for else text
