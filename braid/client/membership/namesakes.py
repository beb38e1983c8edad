"""Warns that another connected member of the group has this member's client id."""

import logging
from collections import deque
from collections.abc import Sequence

from braid.api.assigner.v1.join_pb2 import Namesake
from braid.kernel.limits.assigner.leases import NAMESAKES_MAX

_log = logging.getLogger("braid.consumer")


class NamesakeWarnings:
    """Logs each such member once, however often the assigner names it."""

    def __init__(self, group: str, client_id: str) -> None:
        self._group = group
        self._client_id = client_id
        self._named: deque[str] = deque(maxlen=NAMESAKES_MAX)

    def warn(self, namesakes: Sequence[Namesake]) -> None:
        """Logs one line for members that were not named before."""
        new = [each for each in namesakes if each.member_id not in self._named]
        self._named.extend(each.member_id for each in new)
        if new:
            _log.warning(
                "group %s: another connected member carries this one's client id %r: %s. Rules and explanations that "
                "name it mean both; give each its own: braid.connect(client_id=…)",
                self._group,
                self._client_id,
                ", ".join(f"{each.member_id} at {each.peer or 'an unknown address'}" for each in new),
            )
