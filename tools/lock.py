"""Updates `requirements/*.txt` from `pyproject.toml`: every package by version and hash, without an index's address.

`python -m tools.lock`; needs uv, on PATH or beside this interpreter. The lock for building the wheel is a part of
dev's. The lists of what a release is made of are written with them (`tools.sbom`).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from tools import sbom

ROOT: Final = Path(__file__).resolve().parent.parent

_FLAGS: Final = (
    *("--quiet", "--upgrade", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header"),
)
_FILES: Final = {
    "requirements/dev.txt": ("--extra", "mesh", "--extra", "spark", "--extra", "dev"),
    "requirements/mesh.txt": ("--extra", "mesh", "--constraint", "requirements/dev.txt"),
    "requirements/spark.txt": ("--extra", "mesh", "--extra", "spark", "--constraint", "requirements/dev.txt"),
    "requirements/bench.txt": (
        *("--extra", "mesh", "--extra", "spark", "--extra", "bench"),
        *("--constraint", "requirements/dev.txt"),
    ),
}


def main() -> int:
    """Compiles each file in turn; returns 1 if uv is missing, uv's own code if it fails."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        print("make lock: uv is missing; `.venv/bin/pip install uv` brings it", file=sys.stderr)
        return 1
    for output, arguments in _FILES.items():
        command = [uv, "pip", "compile", *_FLAGS, *arguments, "pyproject.toml", "--output-file", output]
        code = subprocess.run(command, cwd=ROOT).returncode
        if code:
            return code
    (ROOT / "requirements" / "build.txt").write_text(build_lock((ROOT / "requirements" / "dev.txt").read_text()))
    return sbom.main(["write"])


def build_lock(dev: str) -> str:
    """The part of dev's lock that builds the wheel: the build backend and its needs, which must be installed here."""
    pins = locked(dev)
    wanted, found = ["hatchling"], dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name in pins and name not in found:
            found[name] = pins[name]
            wanted += _names(metadata.requires(name) or ())
    return "".join(found[name] for name in sorted(found))


def locked(text: str) -> Mapping[str, str]:
    """The entries of a lock with their hashes, by package; a package may have one per Python version."""
    entries = re.findall(r"^\S[^\n]*\n(?: [^\n]*\n)*", text, re.MULTILINE)
    found = dict[str, str]()
    for entry in entries:
        name = entry.partition("==")[0]
        found[name] = found.get(name, "") + entry
    return found


def _names(requirements: Iterable[str]) -> list[str]:
    return [re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0].lower() for each in requirements if "extra" not in each]


if __name__ == "__main__":
    sys.exit(main())
