"""Reads of one lease: why it is where it is, and the lag and progress of its partition."""

import asyncio
from collections.abc import Mapping

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2, progress_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.kernel.errors import BraidError
from braid.rpc.documents import Document, to_document
from console.server.limits import FAST_POLL_SECONDS
from console.server.live.parts import Content, Single
from console.server.reads.assigner import ASSIGNER
from console.server.reads.lagmon import LAGMON, lag_key, lags
from console.server.reads.past import moment
from console.server.reads.reader import Reader
from console.server.reads.view import AT, Params, Read

_WHY_SECONDS = 2.0  # between two explanations: the assigner reads a part of its group's history for each


def lease_reads() -> tuple[Read, Read]:
    """Why the lease that the page is about is here; and its partition's lag and progress."""
    held = _Held()
    return _why(held), _partition(held)


def past_why() -> Read:
    """Why the lease was where it was at the moment that the page shows."""
    return _why(_Held())._replace(once=True)


class _Held:
    """The lease as it was explained last; None if it never was.

    Attributes:
        lease: The lease.
        tried: Set once an explanation was answered or failed.
    """

    def __init__(self) -> None:
        self.lease: group_pb2.Lease | None = None
        self.tried = asyncio.Event()


def _why(held: _Held) -> Read:
    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        at_ms = moment(reader, params) if AT in params else 0
        try:
            found = await _explained(reader, params["lease"], params.get("group", ""), at_ms)
            held.lease = found.lease
        finally:
            held.tried.set()
        return {"explained": Single(_explanation(found))}

    return Read(("explained",), take, _WHY_SECONDS)


def _partition(held: _Held) -> Read:
    async def take(reader: Reader, params: Params) -> Mapping[str, Content]:
        await held.tried.wait()
        if held.lease is None:  # the other part says why
            return {"lease_lag": Single(None), "progress": Single(None)}
        lag, own = await asyncio.gather(_lag(reader, held.lease), _progress(reader, held.lease))
        return {"lease_lag": Single(lag), "progress": Single(own)}

    return Read(("lease_lag", "progress"), take, FAST_POLL_SECONDS)


async def explained(reader: Reader, lease: str, group: str, at_ms: int) -> Document:
    """Why a lease is where it is, or was at a moment; and of its partition, progress and lag as they are now.

    Raises the assigner's error.
    """
    found = await _explained(reader, lease, group, at_ms)
    lag, own = (None, None)
    if not at_ms:
        lag, own = await asyncio.gather(_known_lag(reader, found.lease), _progress(reader, found.lease))
    return {**_explanation(found), "progress": own, "lag": lag}


async def _explained(reader: Reader, lease: str, group: str, at_ms: int) -> api.ExplainLeaseResponse:
    request = api.ExplainLeaseRequest(lease=lease, group=group, at_ms=at_ms)
    return await reader.one(ASSIGNER, "ExplainLease", request, api.ExplainLeaseResponse)


def _explanation(found: api.ExplainLeaseResponse) -> Document:
    return {
        "lease": to_document(found.lease),
        "reasons": [
            {
                "time_ms": each.metadata.time_ms,
                "actor": each.metadata.actor,
                "history": each.history,
                "sequence": each.sequence,
                "type": each.type,
                "text": each.text,
            }
            for each in found.reasons
        ],
        "kept_from_sequence": found.kept_from_sequence,
    }


async def _progress(reader: Reader, lease: group_pb2.Lease) -> Document | None:
    """Returns what of the lease's partition is done, rejected and retried. None where no replica can say.

    Nothing may be committed yet, a replica may be of an older release, or the caller have no right to the cluster.
    """
    asked = lagmon_api.GetProgressRequest(
        group=lease.group, cluster=lease.cluster, topic=lease.topic, partition=lease.partition
    )
    try:
        return to_document(await reader.one(LAGMON, "GetProgress", asked, progress_pb2.Progress, any_replica=True))
    except BraidError:
        return None


async def _lag(reader: Reader, lease: group_pb2.Lease) -> Document | None:
    """The lag of the lease's partition now; None where none is known. Raises lagmon's error."""
    stream, lane, *_ = lease.name.split("/")
    filter = lagmon_api.LagFilter(group=lease.group, stream=stream, lane=lane, cluster=lease.cluster)
    found, _ = await lags(reader, filter, lag_pb2.LAG_DETAIL_PARTITION)
    own = (each for each in found if (each.topic, each.partition) == (lease.topic, lease.partition))
    lag = next(own, None)
    return None if lag is None else {"key": lag_key(lag, lag_pb2.LAG_DETAIL_PARTITION), **to_document(lag)}


async def _known_lag(reader: Reader, lease: group_pb2.Lease) -> Document | None:
    """The lag of the lease's partition; None where lagmon gives none: the explanation does not need it."""
    try:
        return await _lag(reader, lease)
    except BraidError:
        return None
