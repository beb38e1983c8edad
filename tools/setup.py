"""Prepares the checkout: `.venv` with the locked packages and Braid itself, Java, Kafka's jars, and their class
archive.

`python -m tools.setup`, run by the system's Python (3.11 or newer) with nothing installed. It repeats no finished step:
packages are installed again only if the lock, the project file or the interpreter changed.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devmesh.toolchain.installing import install_command

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv"
PYTHON: Final = VENV / "bin" / "python"
# What the mesh's processes import. Each start would compile it anew where PYTHONDONTWRITEBYTECODE is set.
SOURCES: Final = ("braid", "console", "devmesh", "pipelines", "services", "testbed")
# Packages, or parts of them, that processes of a mesh never import: half of all there is to compile.
UNCOMPILED: Final = r"/(tests?|moto|mypy|mypyc|pip|setuptools|pygments|hypothesis)/"
STAMP: Final = VENV / ".ready"
LOCK: Final = ROOT / "requirements" / "dev.txt"


class SetupFailed(Exception):
    """A step failed; the message says which one and what to try."""


def main() -> int:
    """Runs the unfinished steps; returns 1 with the reason on stderr if one fails."""
    guard = ROOT / "build" / "setup.lock"
    guard.parent.mkdir(exist_ok=True)
    with guard.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            install_packages()
            compile_sources()
            obtain_kafka()
            archive_classes()
        except SetupFailed as error:
            print(f"setup: {error}", file=sys.stderr)
            return 1
    return 0


def install_packages() -> None:
    """Brings `.venv` to the state of the lock, unless it is current."""
    if not _runs():
        _say("making .venv")
        _run([sys.executable, "-m", "venv", "--clear", str(VENV)], f"venv is missing: {install_command('venv')}")
    wanted = fingerprint([LOCK, ROOT / "pyproject.toml", PYTHON.resolve()])
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    _say("installing Python packages (the first time takes a minute or two)")
    install("--require-hashes", "-r", str(LOCK))
    install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    compile_packages()
    STAMP.write_text(wanted)


def compile_packages() -> None:
    """Compiles installed packages on all cores; pip does it on one, and that takes a minute."""
    command = [str(PYTHON), "-m", "compileall", "-qq", "--workers", "0", "-x", UNCOMPILED, str(VENV / "lib")]
    subprocess.run(command, cwd=ROOT, check=False)


def compile_sources() -> None:
    """Compiles our own modules whose sources changed; errors are left to the importer."""
    command = [str(PYTHON), "-m", "compileall", "-qq", *(name for name in SOURCES if (ROOT / name).exists())]
    subprocess.run(command, cwd=ROOT, check=False)


def obtain_kafka() -> None:
    """Checks Java and downloads Kafka's jars into the cache."""
    _run([str(PYTHON), "-m", "devmesh.toolchain.java"], "Kafka cannot run here")
    _run([str(PYTHON), "-m", "devmesh.toolchain.jars"], "Kafka's jars are not to be had")


def archive_classes() -> None:
    """Creates the archive that speeds up Kafka's starts. It may fail with a message; everything works without it."""
    subprocess.run([str(PYTHON), "-m", "devmesh.archives.making"], cwd=ROOT, check=False)


def install(*arguments: str) -> None:
    """Installs into `.venv`, with uv if it is on PATH, else with pip; each uses its configured index."""
    uv = shutil.which("uv")
    pip = [str(PYTHON), "-m", "pip", "install", "--no-compile"]
    command = [uv, "pip", "install", "--python", str(PYTHON)] if uv else pip
    _run([*command, "--quiet", *arguments], "the packages could not be installed")


def fingerprint(files: Sequence[Path]) -> str:
    """A hash over names and contents."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _runs() -> bool:
    """Whether `.venv` has a working interpreter that is recent enough."""
    if not PYTHON.exists():
        return False
    probe = [str(PYTHON), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def _run(command: Sequence[str], what: str) -> None:
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode:
        tail = "\n".join(answer.stdout.splitlines()[-15:])
        raise SetupFailed(f"{what}\n{tail}")


def _say(what: str) -> None:
    print(f"setup: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
