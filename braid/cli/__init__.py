"""The `braid` command. Importing this package loads neither typer nor anything else slow: each verb loads its family.

`main` is the entry point; `app` knows which verb lives in which file.
"""

import os
import sys


def main() -> None:
    """Runs the command with the process's arguments and ends the process with its exit code.

    Whoever reads the output may stop reading (`braid get lag | head`): that is no error. Ctrl-C ends a command that
    still loads as it ends one that works.
    """
    try:
        from braid.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130  # `errors.EXIT_INTERRUPTED`, which may not be loaded yet
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more
        code = 0
    sys.exit(code)
