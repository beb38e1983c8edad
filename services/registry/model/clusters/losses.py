"""Ranges of offsets that a channel's cluster lost, and that an operator gives up by closing the channel. Pure.

Three things show that records were in a log: receipts of producers that left the channel, ends read after its seal, and
the progress of groups. A loss is recorded when a log ends below any of them, when its topic is gone or another one has
its name, and when its cluster was replaced. A channel with a loss drains no further by itself.
"""

from collections.abc import Iterable, Sequence

from braid.kernel.errors import Refused
from braid.kernel.offset_ranges import OPEN, OffsetRange, OffsetRanges, ranges_text, united
from services.registry.model.channels import CONSUMABLE, Channel, ChannelState
from services.registry.model.stream_commands import RecordProducersLeft, ReportLoss, ReportOverwritten
from services.registry.model.stream_events import ProducersLeft, RecordsLost, StreamEvent


def below(ends: Sequence[int]) -> OffsetRanges:
    """All offsets below these ends, one end per partition; a whole partition if its end is `OPEN`."""
    whole = enumerate(ends)
    return tuple(OffsetRange(number, 0, OPEN if end == OPEN else end - 1) for number, end in whole if end)


def missing(known: Iterable[Sequence[int]], ends: Sequence[int]) -> OffsetRanges:
    """Records that were known to be in the logs and no longer are.

    Args:
        known: The offset up to which each partition's log went, by source of that knowledge.
        ends: End offsets now.
    """
    pairs = (pair for offsets in known for pair in enumerate(zip(offsets, ends, strict=True)))
    return united(OffsetRange(number, end, offset - 1) for number, (offset, end) in pairs if offset > end)


def undone(bases: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> OffsetRanges:
    """Records that a group has not done in each partition: from its base, or the log's start if it has none, to the
    end."""
    froms = [base if base >= 0 else start for base, start in zip(bases, starts, strict=True)]
    pairs = enumerate(zip(froms, ends, strict=True))
    return tuple(OffsetRange(number, begin, end - 1) for number, (begin, end) in pairs if begin < end)


def check_accepted(accepted: OffsetRanges, would: OffsetRanges, channel: str) -> None:
    """Raises `Refused`, which names the exact ranges, unless the accepted ranges are those that would be given up."""
    if united(accepted) == would:
        return
    named = "names something else" if accepted else "is to name it"
    message = f"closing channel {channel} gives up {ranges_text(would) or 'nothing'}, and --accept-loss {named}"
    flag = f" --accept-loss {ranges_text(would)}" if would else ""
    raise Refused(message, field="accept_loss", remedy=f"if that is what you want: braid close channel {channel}{flag}")


def lose(channel: Channel, command: ReportLoss | ReportOverwritten) -> Sequence[StreamEvent]:
    """The events of an observed loss. Overwritten ranges only grow; other lost records may be found again."""
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
    """Records the receipts of a producer that was given up, being stopped or cut off, and came back.

    A draining channel is checked against them. A drained channel was sealed and read in full: receipts beyond its end
    are lost records.
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
