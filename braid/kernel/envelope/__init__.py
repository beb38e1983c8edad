"""The commit envelope: progress in the metadata of an ordinary Kafka commit, or in a record beside it. Pure.

Most callers need `encode` and `decode` alone. The format is specified in `docs/reference/commit-envelope.md`.
"""

from braid.kernel.envelope.codec import PREFIX, Decoded, EncodedCommit, MetadataKind, decode, encode

__all__ = ["PREFIX", "Decoded", "EncodedCommit", "MetadataKind", "decode", "encode"]
