"""Bounds of mesh marks, of deletions, and of what follows a restore of the store."""

from typing import Final

RESTORE_ROUTE_GAP: Final = 1_000_000  # a route found to be older than its producers counts on beyond theirs
MARK_LOOK_SECONDS: Final = 30.0  # between two looks at a cluster's mark; every deletion looks by itself
MARK_RETRY_SECONDS: Final = 1.0  # while it is not known
SEAL_CANARIES_MAX: Final = 100  # in one log, of attempts to close it, that are read; more count as records
RESTORE_REVISION_GAP: Final = 1_000_000_000  # a restored store counts on beyond every revision handed out before
IDENTITY_CHECK_SECONDS: Final = 10.0  # between two questions for a cluster's own id
SEAL_SETTLE_SECONDS: Final = 0.2  # from a topic's changed configuration to the canary that tests it
ORPHANS_NAMED_MAX: Final = 200  # of a cluster's topics, and of its groups, in one event; all are counted
TOPICS_COMPARED_AT_ONCE: Final = 500  # in one request
RESTORE_FIRST_SECONDS: Final = 20.0  # that decisions wait for clusters to be compared; silent ones stay shut
RESTORE_PEERS_SECONDS: Final = 8.0  # that a comparison waits for an assigner
