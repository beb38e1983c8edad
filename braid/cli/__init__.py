"""The `braid` command. Importing this package loads neither typer nor anything else slow: each verb loads its family.

`main` is the entry point; `app` knows which verb lives in which file.
"""

import sys


def main() -> None:
    """Runs the command with the process's arguments and ends the process with its exit code."""
    from braid.cli.app import run

    sys.exit(run(sys.argv[1:]))
