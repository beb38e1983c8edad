"""Warnings about a declared cluster: what its registry accepts and is not safe. Pure."""

from braid.api.registry.v1.cluster_pb2 import Cluster


def cluster_warnings(name: str, answer: Cluster) -> list[str]:
    """Warnings of a registry's answer to the declaration of a cluster; `name` is the cluster's."""
    return [f"warning: cluster {name}: {warning}" for warning in answer.warnings]
