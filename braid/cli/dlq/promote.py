"""`braid dlq promote`: turns rejected records into dead letters."""

import contextlib
from collections.abc import Iterable, Sequence

from braid.cli.core.session import Session, missing
from braid.cli.resources.dlq.rejected import Rejected, find_rejected, read_rejected
from braid.client.handling.dead_letters import letter_headers, send_copy
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import DLQ_LANE
from braid.kernel.ports import KafkaRecord


async def promote(session: Session, group: str, stream: str, names: Sequence[str], most: int, dry_run: bool) -> int:
    """Copies rejected records that are still in the log to their streams' dlq lanes, oldest first.

    If it is repeated, a record has two copies with the same identity.

    Raises:
        NotFound: the group does not exist, or rejected no range of this name.
        Invalid: more than `most` records are requested.
    """
    found = [each for each in await find_rejected(session, group, stream) if each.lease.channel.lane != DLQ_LANE]
    chosen = _chosen(found, names)
    count = sum(each.kept for each in chosen)
    if count > most:
        remedy = "name some of them with --range, or raise --max"
        raise Invalid(f"that is up to {count:,} records, more than {most:,}", field="--max", remedy=remedy)
    if dry_run:
        ranges = ", ".join(each.name for each in chosen) or "nothing"
        session.terminal.print(f"{ranges}: up to {count:,} records would be copied (dry run: nothing was)")
        return 0
    copied = await _copy(session, chosen, most)
    session.terminal.print(f"group/{group} {copied:,} rejected records copied to the dlq lane")
    if copied:
        where = f"{f'--stream {stream} ' if stream else ''}--where 'error=Rejected and group={group}'"
        session.terminal.note(f"they are dead letters now: braid get deadletters {where}")
    return 0


async def _copy(session: Session, chosen: Iterable[Rejected], most: int) -> int:
    now_ms = session.now_ms
    copied = 0
    async with contextlib.AsyncExitStack() as stack:
        producers = {
            stream: await stack.enter_async_context(session.mesh.producer(stream))
            for stream in sorted({each.lease.channel.stream for each in chosen if each.kept})
        }
        async with contextlib.aclosing(read_rejected(session, chosen, most)) as records:
            async for each, record in records:
                headers = letter_headers(record.headers, _facts(each, record, now_ms))
                producer = producers[each.lease.channel.stream]
                await send_copy(producer, record.value, record.key, record.headers, headers, now_ms)
                copied += 1
                session.terminal.progress(f"{copied:,} copied")
    session.terminal.progress("")
    return copied


def _facts(each: Rejected, record: KafkaRecord, now_ms: int) -> dict[str, str]:
    return {
        "cluster": each.cluster,
        "topic": each.at.topic,
        "partition": str(each.at.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "stream": each.lease.channel.stream,
        "lane": each.lease.channel.lane,
        "group": each.group,
        "epoch": "0",
        "attempts": "0",
        "first-failure": str(now_ms),
        "last-failure": str(now_ms),
        "error-class": "Rejected",
        "error-message": "rejected in place, promoted by hand",
    }


def _chosen(found: Sequence[Rejected], names: Sequence[str]) -> Sequence[Rejected]:
    if not names:
        return found
    known = {each.name: each for each in found}
    for name in names:
        if name not in known:
            raise missing(NotFound(f"no rejected range is called {name}", field="--range"), name, known)
    return [known[name] for name in dict.fromkeys(names)]
