"""A module that tells how it was started, for tests of processes that are forked."""

import os
from typing import Final

LOADED_IN: Final = os.getpid()  # the process that loaded this; forks of it have other ids
