"""Bounds and timeouts of every replica of a service, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- runtime
ROUNDING_SECONDS: Final = 0.001  # less is no time to wait: clocks that differ in a last bit would never end it
REQUESTS_REMEMBERED_MAX: Final = 1_024  # request ids a history knows as done; older repeats are decided again
LOADS_AT_ONCE: Final = 16  # histories read side by side at start
LOADING_SECONDS: Final = 120.0  # of a start without collections of garbage; a store that does not answer takes longer
HEADS_AT_ONCE: Final = 1_000  # last sequences of histories, asked of the store by a new leader in one call
SLICE_SECONDS: Final = 0.01  # of a loop over all that a service has; then other tasks get their turn
EVENTS_SCAN_MAX: Final = 10_000  # histories one ListEvents call looks into
EVENTS_SEARCHED_MAX: Final = 5_000  # events looked at for one answer with the newest that match: some 0.1 s
EVENTS_FIRST_READ: Final = (
    32  # read first of each history in a search for the newest; most histories have no more of them
)
EVENTS_READ_GROWTH: Final = 4  # times as many in the next read of the same history
STORE_RETRY_SECONDS: Final = (0.05, 1.0)  # first and longest wait before the store is tried again
DIRECTORY_CACHE_SECONDS: Final = 0.1  # how long one read of the directory answers ListEndpoints
DIRECTORY_READ_SECONDS: Final = 0.3  # of reading the directory; then the last read counts
DRAIN_SECONDS: Final = 5.0  # running calls at a graceful end
GC_OBJECTS_MAX: Final = 50_000  # outlive a full garbage collection before they are frozen: looking at them takes 15 ms
GC_FROZEN_SHARE: Final = (
    8  # the new objects must also be at least 1/8 of the frozen ones: freezes are rare in a large process
)
GC_FREEZES_MAX: Final = 48  # before a full collection looks at all objects again, or garbage would stay for good
GC_LOOKED_AT_MAX: Final = (
    250_000  # frozen objects; to look at these again takes 80 ms, and more are never looked at again
)
LOOP_LAG_INTERVAL_SECONDS: Final = 0.25  # how often the event loop's stall is measured
TASKS_INTERVAL_SECONDS: Final = 10.0  # how often the event loop's tasks are counted
PARENT_POLL_SECONDS: Final = 0.5  # how soon a service notices that its parent is gone
OPEN_FILES_MAX: Final = 65_536  # a process raises its limit so far, where the system lets it: connections are files
OPEN_FILES_KEPT_MAX: Final = 4_096  # of those for everything but callers; of few files, a quarter
SHUTDOWN_SECONDS: Final = 3.0  # beyond draining; then the process ends by force
METRICS_CONNECTIONS_MAX: Final = 32  # clients of one replica's metrics at once; one more ends the oldest
METRICS_BACKLOG: Final = 512  # connections not taken yet; a client of one more tries again after a second
METRICS_ROOM_SECONDS: Final = 1.0  # for the oldest to end; else the new one is closed
METRICS_SECONDS: Final = 10.0  # a client that stalls so long, in a handshake or after it, is closed
METRICS_PUSH_SECONDS: Final = 15.0  # between two states sent by OTLP, as Prometheus would scrape
METRICS_PUSH_TIMEOUT_SECONDS: Final = 10.0  # a collector that takes longer gets the next state instead
METRICS_PUSH_POINTS_MAX: Final = 4_096  # in one message: a collector takes 4 MiB at once
PAGE_SIZE_DEFAULT: Final = 100  # items in a List answer when none is asked for
EVENTS_PAGE_BYTES_MAX: Final = 4 << 20  # a page of events must fit an RPC message with room to spare

# --- the local mesh
CLOCK_OFFSET_SECONDS: Final = 0.1  # between two looks at how far a wall clock is to be off, for tests of clock steps

# --- containers
HEALTH_PROBE_SECONDS: Final = 3.0  # a service that takes longer to say that it serves is unwell

# --- waits of days, counted in time that a service was led
LED_COUNT_SECONDS: Final = (
    300.0  # between two records of the count; a leader that is killed loses at most so much of it
)
LED_LOOK_SECONDS: Final = 5.0  # between two looks at the leader's own clock
LED_GAP_SECONDS: Final = 15.0  # a longer time between two looks (suspended, stopped) counts as so much
WAITS_PER_EVENT_MAX: Final = 1_000  # that begin or end, in one event
IDLE_ALERT_SHARE: Final = 0.5  # of a group's idle wait, after which an alert comes; the rest passes after it

# --- wall clocks of replicas
CLOCKS_COMPARE_SECONDS: Final = 30.0  # between two comparisons
CLOCKS_APART_SECONDS: Final = 60.0  # from the median; further apart, nothing that waits is deleted or expires
CLOCK_ASK_SECONDS: Final = 2.0  # for one replica's answer
