"""One-time links: each is accepted once, and expires soon. Pure."""

from enum import StrEnum

from braid.host.console_links import read_link
from console.server.limits import LINK_SECONDS, LINK_TEXT_MAX, LINKS_USED_MAX


class LinkVerdict(StrEnum):
    """The verdict on a link that somebody opened."""

    GOOD = "good"
    USED = "used"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class Links:
    """The one-time links that this process of the console accepts."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._used: dict[bytes, int] = {}  # by nonce, when each ends

    def use(self, token: str, now_ms: int) -> LinkVerdict:
        """Accepts a link, once."""
        link = read_link(self._key, token) if len(token) <= LINK_TEXT_MAX else None
        if link is None:
            return LinkVerdict.UNKNOWN
        if link.nonce in self._used:
            return LinkVerdict.USED
        if not now_ms < link.expire_ms <= now_ms + int(LINK_SECONDS * 1_000):
            return LinkVerdict.EXPIRED
        self._used = {nonce: ends for nonce, ends in self._used.items() if ends > now_ms}
        if len(self._used) >= LINKS_USED_MAX:
            return LinkVerdict.EXPIRED
        self._used[link.nonce] = link.expire_ms
        return LinkVerdict.GOOD
