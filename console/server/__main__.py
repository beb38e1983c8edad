"""The entry point of a console's process: `python -m console.server`."""

import sys

from console.server.config import settings_or_exit
from console.server.process import serve


def main() -> int:
    """Runs a console until a signal stops it; returns the exit code."""
    return serve(settings_or_exit())


if __name__ == "__main__":
    sys.exit(main())
