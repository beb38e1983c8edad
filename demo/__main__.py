"""Entry of `python -m demo`: reads the few flags, plays the story once, ends with its exit code."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from demo.plan import Plan

RECORDS: Final = 200_000
RATE_PER_S: Final = 3_000
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
STORES: Final = ("sqlite", "etcd")
_DIRECTORY: Final = Path(__file__).resolve().parents[1] / "build" / "demo"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The flags, checked."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="A stream survives the death of a cluster.")
    parser.add_argument("--keep", action="store_true", help="leave the mesh running at the end")
    parser.add_argument("--records", type=int, default=RECORDS, help="observations to ship at least (%(default)s)")
    parser.add_argument("--rate", type=int, default=RATE_PER_S, help="observations a second (%(default)s)")
    parser.add_argument(
        "--without-event-store", action="store_true", help="skip the Spark event store (needs no Spark)"
    )
    parser.add_argument("--store", choices=STORES, default=STORES[0], help="where histories are kept (%(default)s)")
    parser.add_argument("--insecure", action="store_true", help="services speak plain text, without rights")
    parser.add_argument("--directory", type=Path, default=_DIRECTORY, help="of everything the run leaves behind")
    options = parser.parse_args(arguments)
    if options.records < 1 or options.rate < 1:
        parser.error("--records and --rate must be positive")
    return options


async def interruptible(run: Coroutine[object, object, int]) -> int:
    """Runs to the end, or until the first SIGINT, SIGTERM or SIGHUP; later ones do not disturb the cleaning up."""
    task = asyncio.ensure_future(run)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, _cancel_once, task)
    try:
        return await task
    except asyncio.CancelledError:
        return INTERRUPTED


_cancelled: set[int] = set()


def _cancel_once(task: "asyncio.Future[int]") -> None:
    if id(task) not in _cancelled:
        _cancelled.add(id(task))
        task.cancel()


def main() -> int:
    """Plays the story; returns the exit code: 0 when the verdict is ok, 1 when not, 130 when interrupted."""
    try:
        options = parse(sys.argv[1:])
        from demo.run import play  # takes a second: Ctrl-C during it must not print a traceback

        plan = Plan(
            options.directory.absolute(),
            options.records,
            options.rate,
            keep=options.keep,
            event_store=not options.without_event_store,
            store=options.store,
            secure=not options.insecure,
        )
        return asyncio.run(interruptible(play(plan)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # nobody reads any more; what was started has been ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


if __name__ == "__main__":
    sys.exit(main())
