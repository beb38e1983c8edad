"""Bounds and terms of the certificates that Braid makes, each with its why. Days unless named."""

from typing import Final

CA_DAYS: Final = 3_650  # a mesh's life; its key is used at each renewal, so it cannot be much shorter than that
LEAF_DAYS: Final = 90  # short enough that a stolen key ends by itself, long enough to renew by hand
LEAF_DAYS_MAX: Final = 825  # TLS stacks refuse longer ones of servers
LEAF_RENEWAL_SHARE: Final = (
    1 / 3
)  # of its life that is left when a leaf is renewed: two monthly runs of 90 days may fail
CA_RENEWAL_DAYS: Final = 365  # a rotation of the CA is planned, and touches every machine
CERTIFICATE_BACKDATE_SECONDS: Final = 300  # clocks differ; a new certificate is valid on all machines at once
ALT_NAMES_MAX: Final = 64  # of one leaf; a handshake sends them all
TRUST_DOMAIN_CHARS_MAX: Final = 255  # SPIFFE's own
