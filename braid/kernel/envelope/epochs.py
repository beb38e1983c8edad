"""The newest leader epoch that a commit covers. Later leaders may have cut the log and written on (KIP-101, 320)."""

from braid.kernel.envelope import decode
from braid.kernel.ports import Committed


def newest_epoch(committed: Committed) -> int:
    """The newest leader epoch among the records that a commit claims; -1 where it does not say.

    It stands beside the metadata since leader epochs are committed there. Commits of earlier releases have it in their
    fingerprint. Of those, one with a checksum knows the leader below its base alone: what it claims beyond is believed
    so far as that leader wrote it.
    """
    if committed.leader_epoch >= 0:
        return committed.leader_epoch
    stated = decode(committed.offset, committed.metadata).fields.fingerprint
    return -1 if stated is None else stated.leader_epoch
