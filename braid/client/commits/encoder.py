"""Encodes the progress of a group's leases on one cluster into commits, as much as the cluster accepts.

Progress that does not fit a commit goes to a record beside it. Progress that fits neither is stated nowhere, and its
records will be repeated.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from braid.client.commits.claims import claims_of, newest_epoch
from braid.client.commits.last_fingerprints import LastFingerprints
from braid.client.commits.spill import Spill
from braid.client.delivery.lease_work import LeaseWork, Version
from braid.client.telemetry.metrics import Level, instruments
from braid.kernel.envelope import EncodedCommit, encode
from braid.kernel.envelope.fit import left_out
from braid.kernel.ids import LeaseId
from braid.kernel.limits.envelope import ENVELOPE_UNITS_DEFAULT
from braid.kernel.ports import Committed, KafkaAdmin
from braid.kernel.progress.fields import EnvelopeFields

_log = logging.getLogger("braid.consumer")


class EncodedProgress(NamedTuple):
    """A lease's progress as it is to be committed, and the version of the work it was made from."""

    work: LeaseWork
    version: Version
    commit: EncodedCommit
    stated: EnvelopeFields  # with the record that it points to
    leader_epoch: int  # the newest among what the work knew of its log when this was taken

    @property
    def committed(self) -> Committed:
        """The offset and metadata as the Kafka port takes them."""
        return Committed(self.commit.offset, self.commit.metadata, self.leader_epoch)


class CommitEncoder:
    """Encodes progress for one committer.

    Attributes:
        truncated: Commits that claim less than is done.
    """

    def __init__(
        self,
        group: str,
        admin: KafkaAdmin,
        *,
        detached: Callable[[], bool],
        spill: Spill | None = None,
        before: Callable[[LeaseWork], None] = lambda work: None,
    ) -> None:
        """`detached` says whether no assigner can be reached; `before` is called with each lease about to be encoded.

        `spill` takes progress that does not fit a commit (None: that progress is not claimed).
        """
        self.truncated = 0
        self._group = group
        self._detached = detached
        self._spill = spill
        self._before = before
        measured, self._attributes = instruments(), {"messaging.consumer.group.name": group}
        self._truncated = measured.truncated if measured else None
        self._unstated_level = Level(measured.unstated if measured else None, self._attributes)
        self._unstated: dict[LeaseId, int] = {}
        self._limit_units = ENVELOPE_UNITS_DEFAULT
        self._ascii_only = False
        self._fingerprints = LastFingerprints(admin)

    def limit(self, units: int) -> None:
        """Sets how many units of metadata the cluster accepts with a commit."""
        self._limit_units = units

    def foresee_last(self, work: LeaseWork) -> None:
        """Asks the cluster now for what the last commit of a drained lease will need."""
        self._fingerprints.foresee(work)

    def unstated(self) -> dict[LeaseId, int]:
        """Returns, by lease, how many rejected or expired offsets its newest commit states nowhere."""
        return dict(self._unstated)

    async def encode(self, work: LeaseWork, *, final: bool) -> EncodedProgress:
        """Encodes the present progress of a lease; `final` adds the log's full fingerprint."""
        self._before(work)
        work.note_acked()
        version = work.version
        leader_epoch, fields = newest_epoch(work), claims_of(work, detached=self._detached())
        if final:
            fields = await self._fingerprints.added_to(fields, work)
        commit = encode(fields, self._limit_units, ascii_only=self._ascii_only)
        if commit.truncated and self._spill is not None:
            written = await self._spill.write(work.lease.id, work.lease.topic_partition, fields)
            if written is not None:
                pointer, record = written
                said = fields if record.whole else record.stated
                beside = encode(said, self._limit_units, ascii_only=self._ascii_only, spill=pointer)
                if beside.stated.spill is not None:
                    self.leave_out(work.lease.id, left_out(fields, record.stated))
                    return EncodedProgress(work, version, beside, record.stated, leader_epoch)
        if commit.truncated:
            self._note_truncated(work.lease.id, left_out(fields, commit.stated))
        elif work.lease.id in self._unstated:
            self.leave_out(work.lease.id, 0)
        return EncodedProgress(work, version, commit, commit.stated, leader_epoch)

    def _note_truncated(self, lease: LeaseId, unstated: int) -> None:
        self.leave_out(lease, unstated)
        self.truncated += 1
        if self._truncated is not None:
            self._truncated.add(1, self._attributes)
        text = "%s: progress does not fit its commit; what is left out will be repeated, %d rejected offsets among it"
        _log.warning(text, lease, unstated)

    def leave_out(self, lease: LeaseId, unstated: int) -> None:
        """Sets how many rejected or expired offsets of a lease are stated nowhere."""
        if unstated:
            self._unstated[lease] = unstated
        else:
            self._unstated.pop(lease, None)
        self._unstated_level.set(sum(self._unstated.values()))

    def acknowledged(self, stored: EncodedProgress) -> None:
        """Notes that a commit is stored: records beside it that it does not point to are no longer needed."""
        if self._spill is not None:
            lease = stored.work.lease
            self._spill.acknowledged(lease.id, lease.topic_partition, stored.commit.stated)

    def forget(self, work: LeaseWork) -> None:
        """Forgets a lease that is gone; it is not committed any more."""
        if self._spill is not None:
            self._spill.remove(work.lease.id, work.lease.epoch)
        self.leave_out(work.lease.id, 0)
        self._fingerprints.forget(work.lease.id)

    def shrink(self) -> bool:
        """Makes later commits smaller after the cluster refused one; returns whether that can still help.

        The first time it uses one byte a character, because some clusters count bytes. After that it halves the limit.
        """
        if not self._ascii_only:
            self._ascii_only = True
            _log.warning("commits of group %s are written in ASCII: the cluster counts their bytes", self._group)
            return True
        self._limit_units //= 2
        _log.warning("commits of group %s get %d units: the cluster refuses more", self._group, self._limit_units)
        return self._limit_units > 0
