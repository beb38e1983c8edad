"""The last release's packages, unpacked where processes of a test import them before the checkout's.

`tests/releases` keeps its wheel with a checksum. Until there is a release, the wheel of commit f7cd256 stands for it:
`git archive f7cd256`, then `python -m hatchling build -t wheel`.
"""

import hashlib
import zipfile
from pathlib import Path
from typing import Final

RELEASES: Final = Path(__file__).resolve().parents[1] / "releases"
CHECKSUM: Final = RELEASES / "braid_streams-0.1.0.sha256"


def unpacked(directory: Path) -> Path:
    """Unpacks the wheel; returns the directory to put on `PYTHONPATH`.

    Raises:
        AssertionError: the wheel is not the one whose checksum is kept.
    """
    digest, name = CHECKSUM.read_text(encoding="ascii").split()
    wheel = RELEASES / name
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert found == digest, f"{wheel} has the checksum {found}, not {digest}"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(directory)
    return directory
