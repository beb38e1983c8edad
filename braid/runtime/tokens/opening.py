"""Puts the parts together that take callers' tokens in a process."""

import logging
from functools import partial
from typing import Final

from braid.kernel.ports import Host
from braid.runtime.tokens.authenticator import Tokens
from braid.runtime.tokens.key_source import read_keys
from braid.runtime.tokens.keys import IssuerKeys
from braid.runtime.tokens.settings import TokenSettings

_log: Final = logging.getLogger("braid.tokens")


def tokens_of(settings: TokenSettings, host: Host) -> Tokens:
    """Builds the reader of tokens by the settings. The issuer's keys are read at the first of them, in a thread."""

    async def read() -> bytes:
        return await host.tasks.run_blocking(partial(read_keys, settings))

    def troubled(why: str) -> None:
        _log.warning("the issuer's keys cannot be read; those read before stay in use: %s", why)

    return Tokens(settings, IssuerKeys(read, host.clock, host.tasks, troubled), host.clock)
