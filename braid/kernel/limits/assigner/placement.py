"""Bounds and timeouts of the placement of leases, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- placement by load
BALANCE_LOOK_SECONDS: Final = 2.0  # between two looks whether loads have left the band
PLACEMENT_BAND_HIGH: Final = 0.15  # above the mean; loads measured over seconds vary by half of it
PLACEMENT_BAND_LOW: Final = 0.3  # below the mean: a newcomer, or one whose partitions went quiet
PLACEMENT_BAND_INNER: Final = 0.05  # once it moves, it comes so near: further would move more than it mends
PLACEMENT_GAIN_MIN: Final = 0.05  # of an average member's load; less is not worth a hand-over
PLACEMENT_DESTINATIONS_TRIED: Final = 8  # takers looked at for one move where rules shut some out
CAPACITY_DEFAULT: Final = 1.0  # busy seconds per second, of a member that declares none: one process, one loop
CAPACITY_MIN: Final = 0.001  # that a member may declare; with less it would get nothing that costs anything
CAPACITY_MAX: Final = 100_000.0  # more processors than hosts have; beside an absurd number all others would vanish
CAPACITY_SAID_FACTOR: Final = 4.0  # times the median: no member counts for more by what it says of itself
CAPACITY_USED_FACTOR: Final = 2.0  # times what it uses: beyond the median, what a member says must be shown
PROCESSOR_PART_MIN: Final = 0.05  # of its capacity counts however much others take: less would be a lease or none
PROCESSOR_USED_MIN: Final = 0.01  # processors: with less in use, what others take is hardly measured
LOAD_PART_MIN: Final = 0.125  # of the mean, what a lease counts at least: who hides its load draws few leases with it
LOAD_FLOOR: Final = 0.01  # busy seconds per second a partition costs at least: below it, noise would be balanced
LOAD_RISE_SECONDS: Final = 6.0  # time constant of smoothing: a cost that doubles leaves the band within 4 s
LOAD_FALL_SECONDS: Final = 60.0  # of a peak that fades: a pause in the traffic moves nothing
LOAD_SETTLE_SECONDS: Final = 12.0  # after its election, and then by measurement, a leader moves partitions
LOAD_NOMINAL_RECORD_SECONDS: Final = 20e-6  # what a record costs at least, where handlers are not timed
LOAD_NOMINAL_BYTE_SECONDS: Final = 2e-9  # for each byte: decompression and copying, some 500 MB/s
LOAD_BUSY_PER_SECOND_MAX: Final = 10_000.0  # handlers at once in one partition; a member that claims more is cut to it
WARM_UP_SECONDS: Final = 30.0  # until a newcomer is given its full share of a loaded group: caches fill, code compiles
WARM_UP_PART_MIN: Final = 0.25  # of its capacity at once
CLI_MOVES_SHOWN: Final = 20  # leases `preview` names on a terminal; JSON names all
MOVES_PER_MINUTE_MIN: Final = 4  # of one group by load, or as many as the minute's joins move, whichever is more
MOVES_COUNTED_SECONDS: Final = 60.0  # that minute

# --- placement in slices: one is to hold the event loop for some 5 ms
PLACEMENT_SLICE_WORK: Final = 700_000  # members looked at, one after another in arrays, before others get their turn
PLACEMENT_TRY_WORK: Final = 4_000  # what looking for one move costs whatever the number of members, in members

# --- placement policies, and one that is tried beside the real one
POLICY_BAND_MIN: Final = 0.01  # of the mean: nearer than that, the noise of measuring would move leases
POLICY_BAND_MAX: Final = 10.0  # above it nothing would ever be moved by load
SHADOW_LOOK_SECONDS: Final = 10.0  # between two looks at what a shadow policy would do: each costs a preview

# --- slow members
SLOW_RATIO: Final = 3.0  # of the others' time for a record: hosts of one fleet differ by less than half of it
SLOW_RECOVERED_RATIO: Final = 1.5  # below it a member is as fast as the others; in between nothing changes
SLOW_WINDOW_SECONDS: Final = 3.0  # time constant of what is compared: a member ten times slower shows within 4 s
SLOW_HOLD_SECONDS: Final = 3.0  # a member is slow for so long before it counts so: longer than a collection of garbage
SLOW_RECORDS_MIN: Final = 3.0  # of a lease within the window; fewer say nothing
SLOW_SPENT_MIN_SECONDS: Final = 1.0  # or its handlers ran for so long: one that does not end counts as it runs
SLOW_SILENCE_SECONDS: Final = 5.0  # what was told of a member before is no comparison
SLOW_MEMBERS_MIN: Final = 3  # of two members nobody can say which is the slow one
