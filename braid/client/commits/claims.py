"""Builds what a commit claims of a lease: the progress of all its cursors as it is now."""

from dataclasses import replace

from braid.client.delivery.partition_work import PartitionWork
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.cursors import CursorPart, joined
from braid.kernel.progress.fields import EnvelopeFields


def newest_epoch(work: PartitionWork) -> int:
    """The newest leader epoch of what any cursor fetched or knows to be done; -1: unknown."""
    return max(each.leader_epoch for each in work.cursors)


def claims_of(work: PartitionWork, *, detached: bool) -> EnvelopeFields:
    """Progress of all cursors."""
    epoch = newest_epoch(work)
    parts = [CursorPart(each.start, each.until, _of_one(each, epoch, detached)) for each in work.cursors]
    return joined(parts, work.backlog_permille)


def _of_one(work: PartitionWork, leader_epoch: int, detached: bool) -> EnvelopeFields:
    log = Fingerprint(work.topic_id, leader_epoch, 0)
    fields = work.progress.snapshot(
        epoch=work.lease.epoch, detached=detached, fingerprint=log, lanes=(work.lane_share,)
    )
    # The fetch position passed these batches, yet who comes next may be able to read them.
    held = work.uncopied_ranges
    return replace(fields, done=fields.done.subtract(held)) if held else fields


def base_when_drained(work: PartitionWork) -> int:
    """Where progress will stand once what is out is done, and nothing of it fails or comes again."""
    unfinished = work.progress.unfinished()
    return int(unfinished[work.out]) if work.out < len(unfinished) else work.progress.fetched
