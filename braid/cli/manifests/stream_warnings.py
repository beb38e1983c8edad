"""Warnings about a declared stream: settings that are accepted although they can lose records. Pure."""

from typing import Final

from braid.api.registry.v1.stream_pb2 import StreamSpec

UNCLEAN: Final = "unclean.leader.election.enable"


def stream_warnings(name: str, spec: StreamSpec) -> list[str]:
    """Warnings about a stream's spec, each with the field, its risk, and what to write instead."""
    if spec.topic_config.get(UNCLEAN, "").strip().lower() != "true":
        return []
    return [
        f"warning: stream {name}: spec.topic_config.{UNCLEAN}=true lets a replica that lags become leader: records "
        "that were acknowledged are lost then, and the loss is reported afterwards; leave it out to wait for a replica "
        "that has them all"
    ]
