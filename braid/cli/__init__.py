"""The package of the `braid` command. Importing it loads neither typer nor any other slow module: each verb loads its
family.

`main` is the entry point; `app` maps each verb to its file.
"""

import os
import sys


def main() -> None:
    """Runs the command with the process's arguments and exits with its code.

    A reader that closes the pipe early (`braid get lag | head`) is no error. Ctrl-C ends a command in the same way
    whether it is still loading or already working.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # what a handshake lacks is said once, by the command's error
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
