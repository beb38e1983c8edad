"""The identity of a row: which record it is. Pure.

A `braid-id` is `<ULID of the producer instance>:<decimal sequence>`, and every copy of a record carries it. A record
without one (a foreign producer's), or with one out of form, is where it lies: its producer is then
`<cluster>/<topic>/<partition>` and its sequence the offset. Either way an identity is a pair (producer, sequence), and
sequences of one producer are dense, which is what makes an exact set of them small (`seen`).
"""

from typing import Final

# 18 digits fit a signed 64-bit integer. The same expression is given to Spark (RLIKE), so it stays within what
# Python's and Java's regular expressions agree on.
ID_FORM: Final = "^[0-9A-HJKMNP-TV-Z]{26}:(0|[1-9][0-9]{0,17})$"
PRODUCER_LETTERS: Final = 26
CHUNK_BITS: Final = 16
CHUNK_SEQUENCES: Final = 1 << CHUNK_BITS
