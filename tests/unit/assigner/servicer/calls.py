"""Calls of the assigner's RPCs in a mesh on virtual time."""

from collections.abc import Coroutine
from typing import Any

from braid.api.assigner.v1 import group_pb2
from tests.support.virtual_time import run_virtual


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


def spec(**fields: Any) -> group_pb2.GroupSpec:
    """A spec of the group `indexer`, with some fields changed."""
    return group_pb2.GroupSpec(**{"streams": ["logs"], **fields})
