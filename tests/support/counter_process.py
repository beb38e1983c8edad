"""A real process of the counter service: `python -m tests.support.counter_process`, settings from the environment."""

import sys

from braid.runtime.process import serve
from braid.runtime.settings import Settings
from tests.support.counters import CounterService

if __name__ == "__main__":
    sys.exit(serve(CounterService(), Settings()))  # type: ignore[call-arg]  # pydantic-settings reads the rest
