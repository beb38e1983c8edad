"""Builds what a commit claims of a lease: the present progress of all its cursors."""

from dataclasses import replace

from braid.client.delivery.cursor import Cursor
from braid.client.delivery.lease_work import LeaseWork
from braid.kernel.ports import Fingerprint
from braid.kernel.progress.cursors import CursorPart, joined
from braid.kernel.progress.fields import EnvelopeFields


def newest_epoch(work: LeaseWork) -> int:
    """Returns the newest leader epoch of the records that any cursor fetched or knows to be done; -1: unknown."""
    return max(each.known_log.leader_epoch for each in work.cursors)


def claims_of(work: LeaseWork, *, detached: bool) -> EnvelopeFields:
    """Returns the progress of all cursors as one value."""
    log = Fingerprint(work.topic_id, newest_epoch(work), 0)
    parts = [CursorPart(each.start, each.until, _of_one(each, work, log, detached)) for each in work.cursors]
    return joined(parts, work.backlog_permille)


def _of_one(cursor: Cursor, work: LeaseWork, log: Fingerprint, detached: bool) -> EnvelopeFields:
    fields = cursor.progress.snapshot(
        epoch=work.lease.epoch, detached=detached, fingerprint=log, lanes=(work.lane_share,)
    )
    # The fetch position passed these batches, yet who comes next may be able to read them.
    held = cursor.uncopied_ranges
    return replace(fields, done=fields.done.subtract(held)) if held else fields


def base_when_drained(work: LeaseWork) -> int:
    """Returns the base that a drained lease will have, if every record at work is done and none fails or returns."""
    lowest = work.cursors[0]
    progress, out, unfinished = lowest.progress, lowest.out, lowest.progress.unfinished()
    return int(unfinished[out]) if out < len(unfinished) else progress.fetched
