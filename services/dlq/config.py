"""Settings of a dlq process, beside those of every service."""

import hashlib
import os
from pathlib import Path

from pydantic import Field

from braid.runtime.settings import Settings


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braid" / "dlq"


class DlqSettings(Settings):
    """Settings of a dlq process: those of every service, and where its index is kept.

    Attributes:
        index: Directory of the index, which may be deleted at any time; in the user's cache by default.
    """

    index: Path = Field(default_factory=_cache)

    @property
    def index_file(self) -> Path:
        """The index file of this instance in this mesh; several meshes may share a directory."""
        mesh = hashlib.sha256(self.store.encode()).hexdigest()[:12]
        return self.index / f"{self.instance}-{mesh}.db"
