"""The newest leader epoch that a commit covers. Later leaders may have cut the log and written on (KIP-101, 320)."""

from braid.kernel.envelope import decode
from braid.kernel.ports import Committed


def newest_epoch(committed: Committed) -> int:
    """Returns the newest leader epoch among the records that a commit claims; -1 if the commit does not say it.

    Newer releases commit the epoch beside the metadata. Commits of earlier releases have it in their fingerprint. If
    such a commit has a checksum, its epoch covers only what lies below its base. So its claims beyond the base count
    only as far as that leader wrote them.
    """
    if committed.leader_epoch >= 0:
        return committed.leader_epoch
    stated = decode(committed.offset, committed.metadata).fields.fingerprint
    return -1 if stated is None else stated.leader_epoch
