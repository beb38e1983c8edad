"""What a record counts for in a producer's buffer. A part of `limits.py`, which would be too long with them.

Measured with tracemalloc on the way of real batches, and held to it by
`tests/unit/client/producing/test_buffer_memory.py`.
"""

from typing import Final

# --- records in a producer's memory
PRODUCER_COPIES: Final = 2.125  # of a record's bytes: ours, and Kafka's client's, in a buffer that grows by an eighth
PRODUCER_RECORD_BYTES: Final = 576  # of objects that a record has until its fate is known; its headers' come on top
PRODUCER_HEADER_BYTES: Final = 128  # of a header's objects, Braid's own three among them; measured: 75 and more
