"""Secrets with which members come back as themselves: each a secret of its first welcome, kept here as a digest. Pure.

So an id that others were told, of a mesh in plaintext or of a principal with many processes, opens nobody's session.
A welcome that was lost loses a secret with it, so one is given at a first join alone, where its member has no id yet.
"""

import hashlib
from typing import Final

SECRET_BYTES: Final = 16
_SECRET_BYTES_MAX: Final = 64
_DIGEST_CHARS: Final = 32


def digest_of(secret: bytes) -> str:
    """The digest of a secret; empty for none, and for what is too short or too long to be one."""
    if not SECRET_BYTES <= len(secret) <= _SECRET_BYTES_MAX:
        return ""
    return hashlib.sha256(secret).hexdigest()[:_DIGEST_CHARS]
