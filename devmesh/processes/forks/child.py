"""A child process that is no `subprocess.Popen`, because another process forked it for us. Same words, same meaning."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol

_POLL_SECONDS: Final = (0.0005, 0.05)  # first and longest, as `subprocess` has them


class Child(Protocol):
    """A child process as its owner needs it; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    returncode: int | None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        ...

    def send_signal(self, sig: int) -> None:
        """Sends it a signal; does nothing when its end is known."""
        ...

    def terminate(self) -> None:
        """Asks it to end (SIGTERM)."""
        ...

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        ...


class ForkedChild:
    """A child of this process by its process id. Its id is not reused before `poll` or `wait` has seen its end."""

    def __init__(self, pid: int, command: Sequence[str]) -> None:
        self.pid = pid
        self.args = command
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with self._lock:
            if self.returncode is None:
                self.returncode = self._exit_code()
            return self.returncode

    def _exit_code(self) -> int | None:
        """None while it runs; 0 where something else has waited for it, as `subprocess` has it."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause, longest = _POLL_SECONDS
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                assert timeout is not None
                raise subprocess.TimeoutExpired(list(self.args), timeout)
            time.sleep(pause)
            pause = min(2 * pause, longest)
        return code

    def send_signal(self, sig: int) -> None:
        """Sends it a signal; does nothing when its end is known."""
        with self._lock:
            ended = self.returncode is not None
            if not ended:
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Asks it to end (SIGTERM)."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self.send_signal(signal.SIGKILL)
