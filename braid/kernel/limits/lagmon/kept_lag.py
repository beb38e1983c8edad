"""Bounds of the lag that lagmon keeps, each with its reason."""

from typing import Final

KEPT_LAG_SAMPLE_SECONDS: Final = 1.0  # between two samples of a step; the largest age of a step is wrong by no more
KEPT_LAG_SAMPLE_MS_MAX: Final = 5_000  # between two samples that counts as known, as for alerts; longer was not seen
KEPT_LAG_TABLE_SECONDS: Final = 1.5  # age of the table that a sample takes; the gauges compute one a second
KEPT_LAG_STEP_MS: Final = 10_000  # one row of the fine resolution
KEPT_LAG_COARSE_STEP_MS: Final = 300_000  # one row of the coarse resolution
KEPT_LAG_STEPS: Final = 8_640  # kept of each resolution: 24 hours of 10 s, 30 days of 5 minutes
KEPT_LAG_CHUNK_STEPS: Final = 30  # in one file: 5 minutes of the fine resolution, 2.5 hours of the coarse
KEPT_LAG_SUMMED_AT_START_MAX: Final = 12  # fine chunks read at the start because a crash left them without a sum
KEPT_LAG_SERIES_MAX: Final = 50_000  # lanes of groups; more are counted, not kept
KEPT_LAG_SHARD_SERIES: Final = 512  # decoded together: what one series costs to read
KEPT_LAG_BYTES: Final = 5 << 30  # on disk, half for each resolution: 45,000 busy lanes; then the oldest chunk goes
KEPT_LAG_BYTES_MIN: Final = 16 << 20  # a smaller setting would not hold an hour of a large mesh
KEPT_LAG_MEMORY_BYTES: Final = 64 << 20  # without a directory, and of chunks that the disk does not take
KEPT_LAG_CHUNK_BYTES_MAX: Final = 512 << 20  # read of one file's header, journal or shard: more is damage
KEPT_LAG_CLOCK_STEP_MS: Final = 2_000  # wall and steady clock differ by more between two samples: a step
KEPT_LAG_RATE_MS_MAX: Final = 30_000  # between two positions that give a rate; further apart is a gap
KEPT_LAG_TREND_STEPS: Final = 6  # behind a trend: the last minute
KEPT_LAG_TREND_SECONDS: Final = 90.0  # older steps say nothing about now
KEPT_LAG_PAST_FINE_MS: Final = 6 * 3_600_000  # read by rows of 10 s at a start, so long as windows need them
KEPT_LAG_PAST_MS: Final = 3 * 86_400_000 + 600_000  # read at a start by rows of 5 minutes: the longest window
KEPT_LAG_ROWS_MAX: Final = 10_000  # of one series in an answer: a day of 10 s fits
KEPT_LAG_PAGE_ROWS: Final = 20_000  # of all series in an answer; it stays below the bound of a message
KEPT_LAG_HISTORY_MS_MAX: Final = 32 * 86_400_000  # between the ends of a range; nothing is kept for longer
