"""Limits and timeouts of the command line, each with its reason. Seconds unless named."""

from typing import Final

# --- the command line
CLI_READ_SECONDS: Final = 5.0  # a read at the leader; then any replica is asked
CLI_ITEMS_MAX: Final = 100_000  # of one list; more is for a program, not for a terminal
CLI_EVENTS_MAX: Final = 20_000  # events read to show the newest of them
CLI_WATCH_SECONDS: Final = 1.0  # between two looks of `-w`
CLI_LAG_SECONDS: Final = 5.0  # that `get lag` waits for the first word of a group that has just begun
CLI_LAG_AGAIN_SECONDS: Final = 0.2  # between two looks for it
CLI_MANIFEST_BYTES_MAX: Final = 4 << 20  # one manifest file
CLI_BATCH_RECORDS: Final = 1_000  # lines sent side by side by `produce`
CLI_READ_BYTES: Final = 1 << 20  # read from stdin at once
CLI_PROBE_SECONDS: Final = 3.0  # `doctor` waits so long for one replica or cluster
CLI_CLOCK_SKEW_SECONDS: Final = 1.0  # a larger difference of wall clocks falsifies lags and retention
CLI_CERTIFICATE_WARN_DAYS: Final = 30.0  # a certificate that ends sooner is told: people issue some by hand
CLI_AUTHORITY_WARN_DAYS: Final = 90.0  # an authority that ends sooner is told: a new one touches every machine
CLI_AUTHORITY_FAIL_DAYS: Final = 7.0
CLI_CERTIFICATE_FAIL_DAYS: Final = 2.0  # one that ends sooner is wrong: whatever renews it should have done so
CLI_SPINNER_AFTER_SECONDS: Final = 0.3  # shorter waits need no sign of life
CLI_SPINNER_SECONDS: Final = 0.1  # between two signs of life

# --- the command line: lag and dead letters
CLI_BEHIND_SECONDS: Final = 60.0  # a group whose oldest undone record is as old is behind
CLI_HISTORY_ROWS: Final = 24  # of one lane that `get lag --since` prints at most, unless told how long a row is
CLI_TO_ZERO_SECONDS_MAX: Final = 86_400 * 1_000  # a lag that falls slower does not come to zero for anybody's purpose
CLI_LETTERS_SHOWN: Final = 100  # dead letters `get` lists unless told; the newest are the ones looked for
CLI_LETTER_BYTES_SHOWN: Final = 4_096  # of a dead letter's key or value on a terminal; -o json shows what was read
