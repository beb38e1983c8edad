"""Bounds and times of tokens that prove who calls, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

TOKEN_BYTES_MAX: Final = 6 << 10  # a token as it travels; headers of HTTP/2 hold 8 KiB in all
TOKEN_RELOAD_SECONDS: Final = 1.0  # between two looks at a client's file: short tokens are renewed late
TOKEN_LEEWAY_SECONDS: Final = 30.0  # that a token counts after its end and before its beginning: clocks differ
TOKENS_REMEMBERED_MAX: Final = 10_000  # verified ones, so that a caller's next call costs no signature
TOKEN_KEYS_MAX: Final = 100  # in an issuer's set
TOKEN_KEYS_BYTES_MAX: Final = 1 << 20  # of that set as it is read
TOKEN_KEYS_SECONDS: Final = 300.0  # then the set is read again, beside the calls
TOKEN_KEYS_PAUSE_SECONDS: Final = 5.0  # between two reads: whoever invents key ids causes no more
TOKEN_KEYS_READ_SECONDS: Final = 5.0  # one read of the set, and the longest that a call waits for it
TOKEN_KEYS_KEPT_SECONDS: Final = 86_400.0  # that the last good set counts while no newer one can be read
