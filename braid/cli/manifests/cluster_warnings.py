"""Warnings about a declared cluster: settings that the registry accepts although they are unsafe. Pure."""

from braid.api.registry.v1.cluster_pb2 import Cluster


def cluster_warnings(name: str, answer: Cluster) -> list[str]:
    """Warnings in a registry's answer to a cluster's declaration; `name` is the cluster's."""
    return [f"warning: cluster {name}: {warning}" for warning in answer.warnings]
