"""Bounds and times of balancing streams over clusters, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- forecasts of disks
FORECAST_COARSE_SECONDS: Final = 300.0  # between two readings that are kept for days
FORECAST_KEPT_SECONDS: Final = 60.0  # a forecast from days of readings is used again: it hardly changes
FORECAST_FINE_SECONDS: Final = 1_800.0  # in which every reading is kept: a disk may fill up in minutes
FORECAST_READINGS_FINE: Final = 360  # of them, if they come more often than measurements do
FORECAST_READINGS_MAX: Final = 1_152  # four days: three or four waves tell a day from a slope; 18 KB a cluster
FORECAST_READINGS_MIN: Final = 12  # two minutes: fewer fit any line
FORECAST_REACH: Final = 4.0  # a forecast looks ahead at most four times the span of its readings

# --- what is too much
BALANCE_BAND: Final = 0.2  # over the mean, before a cluster counts as overloaded: less would follow noise
BALANCE_SLACK: Final = 0.03  # of what the band allows, for each move: less beyond it is worth none
BALANCE_BYTES_FLOOR: Final = 65_536.0  # bytes a second over the mean that are nothing, for each broker
BALANCE_DISK_FLOOR: Final = 0.05  # of a disk over the mean that is nothing
BALANCE_PARTITIONS_FLOOR: Final = 0.1  # of a declared capacity over the mean that is nothing
DISK_LEVEL: Final = 0.9  # of its fullest disk, which a cluster should not reach
DISK_NEARLY: Final = 0.85  # from here on any growth counts
DISK_HORIZON_SECONDS: Final = 6 * 3_600.0  # a disk at its level sooner gives streams away: old records stay a while

# --- when something is done
BALANCE_LOOK_SECONDS: Final = 2.0  # between two looks: channels are made within one
BALANCE_RATES: Final = 5  # looks whose median is a stream's rate: a spike of two looks is nothing
BALANCE_HOLD_SECONDS: Final = 10.0  # for which an overload must last
BALANCE_CALM_SECONDS: Final = 600.0  # without overload, before proposals are withdrawn: near the band, load wavers
BALANCE_COOL_DOWN_SECONDS: Final = 3_600.0  # after any move of a stream: nothing is done and undone within an hour
BALANCE_INTENT_SECONDS: Final = 30.0  # for a move to be made, channels included; then the stream waits
BALANCE_MOVES_OF_STREAM: Final = 3  # a day; a load that swings daily moves a stream no more often
BALANCE_MOVES_AT_ONCE: Final = 2  # streams that change over at the same time
BALANCE_BYTES_PER_DAY: Final = 1 << 40  # kept bytes of streams that moved: they lie twice until retention ends

# --- how far plans look
BALANCE_PLAN_MOVES: Final = 8  # in one plan; the next one continues
BALANCE_PLAN_WIDTH: Final = 32  # placements that a search follows at the same time
BALANCE_CANDIDATES: Final = 24  # of each cluster, the largest streams that may move
BALANCE_PREVIEW_ROUNDS: Final = 32  # plans one after the other, each of as many moves as above
BALANCE_PREVIEW_CLUSTERS: Final = 64  # named in one preview
BALANCE_PREVIEW_MOVES: Final = 1_000  # told in one preview; what is more is counted

# --- measurements that cannot be
DISK_BYTES_MAX: Final = 1 << 60  # an exbibyte; a broker that reports more is not believed
LOG_GROWTH_MAX: Final = 1e11  # bytes a second of one log; more is an error of a report
