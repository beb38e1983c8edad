"""The token of etcd's user: got with the password, kept until etcd refuses it, and got again then.

The password's file is read each time a token is needed, so that a changed one counts without a restart.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import grpc

from braid.host.store_credentials import read_passwords
from braid.kernel.errors import Invalid, StoreAccessDenied
from braid.kernel.limits.store import ETCD_PASSWORD_PAUSE_SECONDS, ETCD_PASSWORDS_MAX
from braid.kernel.ports import Clock
from braid.stores.etcd.denials import denied

_log: Final = logging.getLogger("braid.etcd")
_WRONG_PASSWORD: Final = "authentication failed"  # what etcd says
_SWITCHED_OFF: Final = "authentication is not enabled"


class EtcdUser:
    """A user of etcd, by name and password.

    Args:
        name: Of the user.
        password_file: Its password, or two of them while it changes, a line each.
        clock: The process's.
        authenticate: Asks etcd for a token, by name and password. Raises `grpc.aio.AioRpcError` when etcd refuses,
            and `StoreUnavailable` when it does not answer.
    """

    def __init__(
        self, name: str, password_file: Path, clock: Clock, authenticate: Callable[[str, str], Awaitable[str]]
    ) -> None:
        self._name = name
        self._file = password_file
        self._clock = clock
        self._authenticate = authenticate
        self._token: str | None = None
        self._asking = asyncio.Lock()
        self._refused: tuple[tuple[str, ...], float] = ((), 0.0)  # passwords, and until when they are not sent again

    async def token(self) -> str:
        """The token to show; '' where etcd's authentication is not switched on.

        Raises:
            StoreAccessDenied: etcd does not accept the password, or its file cannot be used.
            StoreUnavailable: etcd does not answer.
        """
        async with self._asking:
            if self._token is None:
                self._token = await self._ask()
            return self._token

    def forget(self, token: str) -> None:
        """Gets another one when it is needed next, unless this one was replaced meanwhile."""
        if self._token == token:
            self._token = None

    async def _ask(self) -> str:
        passwords = self._passwords()
        if passwords == self._refused[0] and self._clock.elapsed() < self._refused[1]:
            raise self._wrong_password()
        for password in passwords:
            try:
                return await self._authenticate(self._name, password)
            except grpc.aio.AioRpcError as error:
                said = error.details() or ""
                if _SWITCHED_OFF in said:
                    _log.warning("etcd's authentication is not enabled: every program that reaches it may write")
                    return ""
                if _WRONG_PASSWORD not in said:
                    raise denied(f"etcd does not let in user {self._name}: {said}", "user", "see etcd's log") from error
        self._refused = passwords, self._clock.elapsed() + ETCD_PASSWORD_PAUSE_SECONDS
        raise self._wrong_password()

    def _passwords(self) -> tuple[str, ...]:
        try:
            return read_passwords(self._file, ETCD_PASSWORDS_MAX)
        except Invalid as error:
            raise denied(f"{error.field}: {error.message}", "password", error.remedy) from error

    def _wrong_password(self) -> StoreAccessDenied:
        remedy = f"write the right one into {self._file}; it is read again"
        return denied(f"etcd does not accept the password of user {self._name}", "password", remedy)
