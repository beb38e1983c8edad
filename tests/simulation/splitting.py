"""Leases split at their head during a run."""

import random
from contextlib import AbstractContextManager
from unittest.mock import patch

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.client.consuming import backlogs
from tests.simulation.applications import GROUP, STREAM
from tests.simulation.operations import Operation
from tests.simulation.world import LANES

_BEHIND_MIN = 1  # offsets: runs are short


def splitting(dice: random.Random) -> Operation:
    """The next lane to split."""
    lane = dice.choice(["", *(lane for lane in LANES if lane != "dlq")])
    share = dice.choice((0.1, 0.5, 0.9))
    request = api.SplitBacklogRequest(group=GROUP, stream=STREAM, lane=lane, share=share)
    return Operation(f"split {lane or STREAM} {share}", "SplitBacklog", request, None)


def early() -> AbstractContextManager[object]:
    """While this is entered, leases hardly behind are split too."""
    return patch.object(backlogs, "SPLIT_RECORDS_MIN", _BEHIND_MIN)
