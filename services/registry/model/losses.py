"""What a channel's cluster lost of it, and what a person gives up by closing it: ranges of offsets. Pure.

Evidence that something was in a log: the receipts of producers that left the channel, the ends read after its seal, the
progress of groups. A log that ends before any of them, a topic that is gone or another one under its name, a cluster
that was replaced: each is a loss, and stated as one. A channel with a loss drains no further by itself.
"""

from collections.abc import Iterable, Sequence

from braid.kernel.errors import Refused
from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges, ranges_text, united
from services.registry.model.channels import CONSUMABLE, Channel, ChannelState
from services.registry.model.stream_commands import RecordProducersLeft, ReportLoss, ReportOverwritten
from services.registry.model.stream_events import ProducersLeft, RecordsLost, StreamEvent


def below(ends: Sequence[int]) -> OffsetRanges:
    """Everything below these ends, one a partition; all of a partition whose end is `OPEN`."""
    whole = enumerate(ends)
    return tuple(OffsetRange(number, 0, OPEN if end == OPEN else end - 1) for number, end in whole if end)


def missing(known: Iterable[Sequence[int]], ends: Sequence[int]) -> OffsetRanges:
    """What logs lack of what somebody knows to have been in them.

    Args:
        known: Of each who knows anything, up to which offset each partition's log went.
        ends: Where the logs end now.
    """
    pairs = (pair for offsets in known for pair in enumerate(zip(offsets, ends, strict=True)))
    return united(OffsetRange(number, end, offset - 1) for number, (offset, end) in pairs if offset > end)


def undone(bases: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> OffsetRanges:
    """What a group has not done of each partition: from its base, or the log's start where it has none, to the end."""
    froms = [base if base >= 0 else start for base, start in zip(bases, starts, strict=True)]
    pairs = enumerate(zip(froms, ends, strict=True))
    return tuple(OffsetRange(number, begin, end - 1) for number, (begin, end) in pairs if begin < end)


def check_accepted(accepted: OffsetRanges, would: OffsetRanges, channel: str) -> None:
    """Raises `Refused`, with the exact naming, unless what is accepted is what would be given up."""
    if united(accepted) == would:
        return
    named = "names something else" if accepted else "is to name it"
    message = f"closing channel {channel} gives up {ranges_text(would) or 'nothing'}, and --accept-loss {named}"
    flag = f" --accept-loss {ranges_text(would)}" if would else ""
    raise Refused(message, field="accept_loss", remedy=f"if that is what you want: braid close channel {channel}{flag}")


def lose(channel: Channel, command: ReportLoss | ReportOverwritten) -> Sequence[StreamEvent]:
    """What follows from a loss that was seen. What is overwritten only grows; the rest may be found again."""
    if channel.state not in CONSUMABLE:
        return []
    if isinstance(command, ReportOverwritten):
        overwritten = united((*channel.overwritten, *command.ranges))
        lost = united((*channel.lost, *overwritten))
    else:
        overwritten, lost = channel.overwritten, united((*command.ranges, *channel.overwritten))
    if (lost, overwritten) == (channel.lost, channel.overwritten):
        return []
    return [RecordsLost(command.ref, lost, command.evidence, overwritten)]


def late_receipts(channel: Channel, command: RecordProducersLeft) -> Sequence[StreamEvent]:
    """A producer that was not waited for, being stopped or cut off, is back and tells how far its receipts go.

    What drains is held against them. What is drained was sealed, and all of it read then: what lay beyond was lost.
    """
    known = channel.acknowledged or (0,) * channel.partitions
    grown = tuple(max(pair) for pair in zip(known, command.acknowledged or known, strict=True))
    if grown == known or not channel.live:
        return []
    told = ProducersLeft(channel.ref, command.route_revision, command.expired, grown, command.unheard)
    beyond = missing([grown], channel.end_offsets) if channel.end_offsets else ()
    if channel.state is not ChannelState.DRAINED or not beyond:
        return [told]
    evidence = "a producer that came back after the drain has receipts beyond its end"
    return [told, RecordsLost(channel.ref, united((*channel.lost, *beyond)), evidence, channel.overwritten)]
