"""The fingerprint of a log below a last commit's base, asked for before the commit is due."""

import asyncio
import logging
from dataclasses import replace
from typing import NamedTuple

from braid.client.commits.claims import base_when_drained
from braid.client.delivery.lease_work import LeaseWork
from braid.kernel.errors import BraidError
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Fingerprint, KafkaAdmin
from braid.kernel.progress.fields import EnvelopeFields

_log = logging.getLogger("braid.consumer")


class _Foreseen(NamedTuple):
    """The fingerprint below the base that a last commit is expected to have."""

    base: int
    asked: "asyncio.Future[Fingerprint | None]"


class LastFingerprints:
    """Fingerprints for the last commits of one cluster's leases; at most one a lease is asked for ahead."""

    def __init__(self, admin: KafkaAdmin) -> None:
        """`admin` is the client that asks the cluster."""
        self._admin = admin
        self._foreseen: dict[LeaseId, _Foreseen] = {}

    def foresee(self, work: LeaseWork) -> None:
        """Asks for the fingerprint that the last commit of a drained lease needs, while its records are handled.

        If the commit's base turns out to be another, the fingerprint for that base is asked for then.
        """
        if work.restored and not work.ended:
            base = base_when_drained(work)
            self._foreseen[work.lease.id] = _Foreseen(base, asyncio.ensure_future(self._below(work, base)))

    def forget(self, lease: LeaseId) -> None:
        """Forgets a lease that is gone."""
        if (foreseen := self._foreseen.pop(lease, None)) is not None:
            foreseen.asked.cancel()

    async def added_to(self, fields: EnvelopeFields, work: LeaseWork) -> EnvelopeFields:
        """Returns the progress with the log's identity below its own base, which may have moved on since."""
        foreseen = self._foreseen.get(work.lease.id)
        if foreseen is not None and foreseen.base == fields.base:
            await asyncio.wait((foreseen.asked,))
            fingerprint = None if foreseen.asked.cancelled() else foreseen.asked.result()
        else:
            fingerprint = await self._below(work, fields.base)
        return fields if fingerprint is None else replace(fields, fingerprint=fingerprint)

    async def _below(self, work: LeaseWork, base: int) -> Fingerprint | None:
        try:
            return await self._admin.fingerprint(work.lease.topic_partition, base)
        except BraidError as error:
            _log.debug("%s: last commit without a fingerprint: %s", work.lease.id, error)
            return None
