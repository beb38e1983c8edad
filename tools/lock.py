"""Refreshes `requirements/*.txt` from `pyproject.toml`: every package by version and hash, no index's address.

`python -m tools.lock`; needs uv, on PATH or beside this interpreter.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

_FLAGS: Final = (
    *("--quiet", "--upgrade", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header"),
)
_FILES: Final = {
    "requirements/dev.txt": ("--extra", "mesh", "--extra", "spark", "--extra", "dev"),
    "requirements/mesh.txt": ("--extra", "mesh", "--constraint", "requirements/dev.txt"),
    "requirements/spark.txt": ("--extra", "mesh", "--extra", "spark", "--constraint", "requirements/dev.txt"),
}


def main() -> int:
    """Compiles each file in turn; 1 when uv is missing, uv's own code when it fails."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        print("make lock: uv is missing; `.venv/bin/pip install uv` brings it", file=sys.stderr)
        return 1
    for output, arguments in _FILES.items():
        command = [uv, "pip", "compile", *_FLAGS, *arguments, "pyproject.toml", "--output-file", output]
        code = subprocess.run(command, cwd=ROOT).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
