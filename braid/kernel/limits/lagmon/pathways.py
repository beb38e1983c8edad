"""Bounds and times of pathways, each with its reason."""

from typing import Final

# --- the header
PATHWAY_HEADER_BYTES_MAX: Final = 64  # ours has 28; a longer one is garbage, and is not decoded
PATHWAY_ADDED_BYTES_MAX: Final = 64  # what the header adds to a record: name, value and their lengths, with room
PATHWAY_FUTURE_MS_MAX: Final = 86_400_000  # a header from further ahead is garbage, not a clock that is wrong
PATHWAY_WEIGHT_SHIFT_MAX: Final = 31  # what five bits hold: a record may stand for 2^31 others

# --- sketches
SKETCH_GAMMA: Final = 1.01 / 0.99  # relative accuracy of 1 % (DDSketch: gamma is (1 + a) / (1 - a))
SKETCH_MS_MAX: Final = 30 * 86_400_000  # longer latencies count as this one
SKETCH_BINS_MAX: Final = 1_100  # from 1 ms to 30 days at that accuracy: 1,084
SKETCH_COUNT_MAX: Final = 1 << 53  # of all bins of a report's sketch: whole numbers stay exact

# --- in a process
PATHWAY_BUCKET_MS: Final = 10_000  # what one report covers
PATHWAY_REPORT_DELAY_SECONDS: Final = 2.0  # after a bucket, at random below it: processes do not report all at once
PATHWAY_REPORT_SECONDS: Final = 5.0  # for one report to arrive; then it is lost, and counted
PATHWAY_CLOSE_SECONDS: Final = 1.0  # for the last report of a process that closes its mesh
PATHWAY_NODES_MAX: Final = 200  # different pathways that a process measures in a bucket; others are counted
PATHWAY_HASHES_KEPT_MAX: Final = 2_000  # hashes of nodes that a process, or a replica of lagmon, need not compute again
PATHWAY_SENT_PER_S: Final = 10  # records of one producer that begin a pathway, about; a minute has 600
PATHWAY_TAKEN_PER_S: Final = 50  # records of one consumer that are measured, about; more are sampled
PATHWAY_PLAN_MS: Final = 1_000  # how long a sampling rate holds
PATHWAY_WAITING_MAX: Final = 512  # fetched records of a lease that wait with a pathway; others are counted
PATHWAY_HANDLED_MAX: Final = 512  # contexts of a lease's records that were handed out; the oldest is forgotten first

# --- in lagmon
PATHWAY_REPORT_EDGES_MAX: Final = 200  # of a report, sent ones and consumed ones each: a process measures no more
PATHWAY_STORE_NODES_MAX: Final = 2_000  # points of pathways that lagmon keeps; others are counted
PATHWAY_FINE_BUCKETS: Final = 12  # buckets of 10 s: two minutes
PATHWAY_COARSE_MS: Final = 300_000  # the longer buckets: 5 minutes
PATHWAY_COARSE_BUCKETS: Final = 13  # an hour, and the one that is not full yet
PATHWAY_STORE_BINS_MAX: Final = 1_000_000  # bins in all kept sketches, about 80 MB; then the oldest bucket goes
PATHWAY_REPORTERS_MAX: Final = 50_000  # processes whose last report is known by its number; the oldest is forgotten
PATHWAY_WINDOW_MS: Final = 60_000  # what an answer covers, if the request does not say
PATHWAY_WINDOW_MS_MAX: Final = 3_600_000  # nothing is kept for longer
PATHWAY_DEPTH_MAX: Final = 32  # edges shown of one pathway; a longer one shows its last
PATHWAY_PAGE_MAX: Final = 200  # pathways in an answer: each merges sketches of many buckets
