"""Bounds of fetching: large batches, turns of lanes, nearer replicas. A part of `limits.py`, too long with them."""

from typing import Final

# --- large batches
LARGE_PIECE_BYTES: Final = 1 << 20  # in plain, at once: a turn of the event loop decodes it; more only for one record
LARGE_PARTS_FREE: Final = 1 << 16  # blocks of a codec without content cost time: so many, and one for each KiB inflated
INFLATED_PART_BYTES: Final = 256 << 10  # of gzip and zstd at once

# --- lanes' turns in fetching
FETCH_TURN_RECORDS: Final = 250  # decoded of a lane in a row, for each unit of its share, while others have something
FETCH_AHEAD_BYTES: Final = 16 << 20  # fetched of a lane and not decoded: then no more of it is asked for

# --- replicas in a reader's rack
KAFKA_NEAR_REPLICA_SECONDS: Final = 10.0  # not asked after it failed: leaders name it until its session ends, 9 s
