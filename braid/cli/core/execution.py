"""Runs a parsed command's work: a job that receives a session to a mesh. Loads nothing slow."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.endpoints import Choice, find_endpoint, typed
from braid.cli.core.terminal import Terminal
from braid.cli.core.tracing import traced_command
from braid.cli.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from braid.cli.core.session import Session

Job = Callable[["Session"], Awaitable[int]]
Runner = Callable[[Choice, Job], int]

EndpointOption = Annotated[
    str, typer.Option("--endpoint", metavar="HOST:PORT", help="Any replica of the mesh. [env: BRAID_ENDPOINT]")
]
ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="A mesh named in the contexts file. [env: BRAID_CONTEXT]")
]
OutputOption = Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, wide, json, yaml or name.")]
DocumentOption = Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Let the mesh check the command; change nothing.")]


def execute(endpoint: str, context: str, job: Job) -> None:
    """Runs a job in a session to the named mesh, and exits with its exit code.

    Raises:
        BraidError: the job raised it.
        SystemExit: the job's exit code is not 0.
    """
    code = RUNNER.get()(typed(endpoint, context), job)
    if code:
        raise SystemExit(code)


def run_in_process(choice: Choice, job: Job) -> int:
    """Runs a job on its own event loop. Ctrl-C, SIGTERM and a closed pipe end it in order."""
    endpoint = find_endpoint(choice, os.environ, Path.cwd())
    terminal = Terminal(sys.stdout, sys.stderr, os.environ)
    interrupted = [EXIT_INTERRUPTED]

    async def main() -> int:
        from braid.cli.core.session import open_session

        task = asyncio.current_task()
        assert task is not None, "main runs in a task"
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with open_session(endpoint, terminal) as session:
            try:
                return await job(session)
            finally:
                interrupted[0] = session.interrupt_code

    try:
        with traced_command(os.environ):
            return asyncio.run(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return interrupted[0]
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # lives as long as the process
        return 0


RUNNER: Final[ContextVar[Runner]] = ContextVar("how jobs run", default=run_in_process)
