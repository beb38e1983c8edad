"""A real provider of OpenID Connect as a process: npm's `oidc-provider`, installed once from its lock."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devmesh.toolchain.cache import cache_directory, resolving
from testbed.node import node, npm
from testbed.ports import free_port

_SOURCES: Final = Path(__file__).parent / "openid"
_FILES: Final = (".npmrc", "package.json", "package-lock.json", "provider.mjs")
_SECONDS: Final = 600.0


class OpenIdProvider:
    """The running provider, and what it has granted.

    Attributes:
        issuer: Its address.
    """

    def __init__(self, issuer: str, log: Path) -> None:
        self.issuer = issuer
        self._log = log

    def grants(self, kind: str) -> int:
        """How many grants of a kind it gave: `authorization_code`, `refresh_token`; 1 of `ready` once it serves."""
        return self._log.read_text().splitlines().count(kind)


@contextmanager
def openid_provider(directory: Path, console: str, token_seconds: int) -> Iterator[OpenIdProvider]:
    """Runs one whose client is a console; its access tokens are JWTs for the audience `braid`."""
    port, log = free_port(), directory / "provider.log"
    command = [node(), "provider.mjs", str(port), console, str(token_seconds)]
    with log.open("w") as output, (directory / "provider.err").open("w") as errors:
        process = subprocess.Popen(command, cwd=_installed(), stdout=output, stderr=errors)
    try:
        yield OpenIdProvider(f"http://127.0.0.1:{port}", log)
    finally:
        process.terminate()
        process.wait(60)


def _installed() -> Path:
    """Where the provider and its packages lie; the first call on a machine installs them."""
    content = b"".join((_SOURCES / name).read_bytes() for name in _FILES)
    name = f"openid-provider-{hashlib.sha256(content).hexdigest()[:16]}"
    kept = cache_directory() / name
    if not kept.is_dir():
        with resolving(name) as work:
            if not kept.is_dir():
                whole = work / "package"
                whole.mkdir()
                for each in _FILES:
                    shutil.copy(_SOURCES / each, whole)
                command = [*npm(), "ci", "--ignore-scripts"]
                path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
                environment = os.environ | {"PATH": path}
                subprocess.run(command, cwd=whole, env=environment, check=True, capture_output=True, timeout=_SECONDS)
                whole.rename(kept)
    return kept
