"""Bounds and timeouts of lag monitors that divide clusters between them. Seconds unless a name says otherwise."""

from typing import Final

LAG_PEERS_MAX: Final = 32  # other lag monitors that one asks; it reads by itself what only further ones read
LAG_PEER_SECONDS: Final = 0.25  # between two questions to one peer: rows that it reads are older by no more
LAG_PEER_PAUSE_SECONDS: Final = 1.0  # at most, also where answers take long: their rows would be stale
LAG_PEER_MESSAGE_SECONDS: Final = 2.0  # a peer's next message comes within it, or the answer is given up
LAG_PEER_ANSWER_SECONDS: Final = 60.0  # all of an answer: a million rows come in a few seconds
LAG_PEER_HISTORY_SECONDS: Final = 3.0  # for a page of what a peer keeps; it is paused or gone if that takes longer
LAG_PEER_AGAIN_SECONDS: Final = 10.0  # a peer that does not share what it reads is asked again after it
LAG_PEER_FAILURES: Final = 2  # questions without an answer before a peer is no member: this replica may have slept
LAG_MEMBER_SECONDS: Final = 5.0  # a listed peer counts for so long without an answer: it may be busy
LAG_MEMBER_GONE_SECONDS: Final = 1.5  # and one that the directory does not list any more for so long
LAG_MEMBERS_LOOK_SECONDS: Final = 1.0  # between two looks into the directory while there are peers, or news of one
LAG_MEMBERS_IDLE_SECONDS: Final = 30.0  # without peers: a new one announces itself by its first question
LAG_UNREAD_SECONDS: Final = 3.0  # after so long the next replica reads a cluster that none before it reads
LAG_TAKEOVER_SECONDS: Final = 30.0  # and one that is read, but not to its end, or whose ends are not seen
LAG_RECALL_SECONDS: Final = 60.0  # a new reader takes ages from the one before; by then it has read the offset log
LAG_SHARED_STALE_SECONDS: Final = (
    5.0  # rows of a peer are stale: those that one reads are after 3, and answers may fail
)
LAG_SHARE_DRIFT_MS: Final = 2  # a row's age is sent again when it is wrong by more
LAG_SHARE_ROWS: Final = 40_000  # rows of one message: some 2 MB of numbers
LAG_SHARE_METADATA_BYTES: Final = 4 << 20  # of their envelopes in one message; the last one may go beyond it
LAG_SHARE_PAIRS: Final = 4_000  # groups and topics of one message: at most 4 MB of names
