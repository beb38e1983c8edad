"""Marks a cluster as this mesh's at registration, and gives it up at deletion. One attempt per call.

A cluster that belongs to another mesh is refused, under any prefix: groups share one namespace on a Kafka cluster. A
cluster that holds channels' topics of a mesh without a mark is refused too: equal names would be taken for this mesh's
own. `take_over` says that the former mesh no longer exists.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from braid.kernel.errors import BraidError, Refused
from braid.kernel.limits.kafka import TRY_APPEND_SECONDS
from braid.kernel.ports import KafkaAdmin, KafkaCluster
from services.registry.model.clusters.marks import UNMARKED
from services.registry.model.topics import channel_of
from services.registry.ownership.mark_log import MarkLogs, belongs_to

TAKE_OVER_UNMARKED: Final = "unmarked"


async def adopt(
    marks: MarkLogs,
    admin: KafkaAdmin,
    cluster: KafkaCluster,
    name: str,
    prefix: str,
    take_over: str = "",
    *,
    dry_run: bool = False,
) -> None:
    """Marks a cluster as this mesh's; with `dry_run` only checks whether it may be.

    Args:
        marks: Mark logs of this mesh.
        admin: Admin client of the cluster.
        cluster: The Kafka port, to read its logs.
        name: The name it is to be registered under.
        prefix: The prefix of its topics.
        take_over: The id of the mesh it is taken over from, or `TAKE_OVER_UNMARKED`.
        dry_run: Write nothing.

    Raises:
        Refused: it belongs to another mesh, or may belong to one that left no mark; or `take_over` names the wrong one.
        ClusterUnavailable: it does not answer.
    """
    owner = await marks.owner(admin, cluster, prefix)
    if owner == marks.mesh:
        return
    _check_owner(name, owner, take_over)
    await _check_others(marks, admin, cluster, name, prefix, take_over)
    if owner == UNMARKED and take_over != TAKE_OVER_UNMARKED:
        _check_unused(name, [each for each in await admin.list_topics() if channel_of(prefix, each)])
    if dry_run:
        return
    claimed = await marks.claim(admin, cluster, prefix, over=owner)
    if claimed != marks.mesh:  # another mesh was faster
        raise belongs_to(name, claimed)
    try:  # whoever marks the cluster under another prefix at the same time finds this mark, or is found here
        await _check_others(marks, admin, cluster, name, prefix, take_over)
    except Refused:
        await marks.give_up(admin, prefix)
        raise


async def give_up(marks: MarkLogs, admin: KafkaAdmin, prefix: str) -> None:
    """Removes this mesh's mark. A cluster that does not answer keeps it; another mesh can take the cluster over."""
    with contextlib.suppress(BraidError, TimeoutError):
        async with asyncio.timeout(TRY_APPEND_SECONDS):
            await marks.give_up(admin, prefix)


def _check_owner(name: str, owner: str, take_over: str) -> None:
    if not take_over and owner != UNMARKED:
        raise belongs_to(name, owner)
    named = UNMARKED if take_over == TAKE_OVER_UNMARKED else take_over
    if take_over and owner != named:
        found = f"belongs to mesh {owner}" if owner else "carries no mark"
        remedy = f"name {owner} if that mesh is gone for good" if owner else f"name {TAKE_OVER_UNMARKED}"
        message = f"cluster {name} {found}, it cannot be taken over from {take_over}"
        raise Refused(message, field="take_over", remedy=remedy)


async def _check_others(
    marks: MarkLogs, admin: KafkaAdmin, cluster: KafkaCluster, name: str, prefix: str, take_over: str
) -> None:
    for other, mesh in (await marks.others(admin, cluster, prefix)).items():
        if mesh != take_over:
            message = f"cluster {name} belongs to mesh {mesh}, whose topics begin with {other!r}"
            remedy = "one Kafka cluster belongs to one mesh, since groups share its names: register another one"
            raise Refused(message, field="spec.topic_prefix", remedy=remedy, metadata={"mesh": mesh})


def _check_unused(name: str, topics: Sequence[str]) -> None:
    if topics:
        more = f" and {len(topics) - 1} more" if len(topics) > 1 else ""
        message = f"cluster {name} has topics of a mesh that left no mark: {topics[0]}{more}"
        remedy = f"upgrade that mesh first; if it is gone for good: --take-over {TAKE_OVER_UNMARKED}"
        raise Refused(message, field="spec.topic_prefix", remedy=remedy)
