"""The commands that do the same as the Messages page. Pure."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from console.server.doing.action import options
from console.server.messages.asked import EARLIEST, Asked


def browse_command(stream: str, asked: Asked, oldest_ms: int = 0) -> str:
    """The command that prints the same records.

    Args:
        stream: Whose.
        asked: What was asked.
        oldest_ms: The time of the oldest record that was shown, where newest records were; 0 while none was.
    """
    if asked.start.kind == EARLIEST:
        begin = EARLIEST
    elif asked.start.kind == "time":
        begin = moment(asked.start.value)
    else:
        begin = moment(oldest_ms) if oldest_ms else "latest"
    return consume_command(stream, asked, begin, asked.limit)


def consume_command(stream: str, asked: Asked, begin: str, most: int = 0) -> str:
    """A command that prints those records of a stream that were asked for, from somewhere on."""
    partition = "" if asked.partition is None else str(asked.partition)
    chosen = [("--lane", asked.lane), ("--cluster", asked.cluster), ("--partition", partition)]
    which = options([("--from", begin), *chosen, ("--filter", asked.filter_text), ("--max", str(most) if most else "")])
    return line(["consume", stream, *which, "-o", "json"])


def line(words: Sequence[str]) -> str:
    """Words after `braid` as a shell reads them."""
    return shlex.join(["braid", *words])


def moment(time_ms: int) -> str:
    """A time as the command line reads it."""
    at = datetime.fromtimestamp(time_ms // 1_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{time_ms % 1_000:03d}Z"
