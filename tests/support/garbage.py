"""A message that is none, for tests of what a hostile or broken client does to a stream."""


class Garbage:
    """Serialises to bytes no message can be parsed from."""

    def SerializeToString(self, *, deterministic: bool) -> bytes:
        """Bytes that are no message, in place of a message's own."""
        return b"\xff" * 5
