"""Bounds and times of lag targets and alerts, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- targets
LAG_TARGETS_MAX: Final = 256  # of one stream; a request lists no more
LAG_TARGET_SECONDS_MIN: Final = 0.1  # lag is known to a commit interval, half a second; a smaller target always fails
LAG_TARGET_SECONDS_MAX: Final = 30 * 86_400.0  # a longer one outlives every usual retention
AVAILABILITY_PERCENT_DEFAULT: Final = 99.9
AVAILABILITY_PERCENT_MIN: Final = 90.0  # with a larger budget the fast burn rates cannot be reached at all
AVAILABILITY_PERCENT_MAX: Final = 99.99  # with a smaller budget an alert fires after less than three samples

# --- windows
ALERT_SAMPLE_SECONDS_MAX: Final = 5.0  # time between two samples that counts; what is longer was seen by nobody
ALERT_PAST_MARGIN_SECONDS: Final = 15.0  # around a cluster's outage: what was kept then burns no budget
ALERT_PAST_SKEW: Final = 0.0005  # of a kept row's age: NTP slews a clock by no more
ALERT_PAST_TARGETS: Final = 500  # whose past is added to their windows at once
ALERT_PAST_WAIT_SECONDS: Final = 60.0  # for all clusters to be read, until those known get their past
ALERT_STREAMS_SECONDS: Final = 2.0  # between two looks at the registry's streams
ALERT_CLUSTERS_SECONDS: Final = 0.5  # between two looks at the registry's clusters
ALERT_FACTS_SECONDS: Final = 15.0  # what the registry said longer ago decides nothing about streams and clusters
ALERT_TARGETS_MAX: Final = 5_000  # lanes of groups whose windows one replica keeps, 5 kB each; more are counted

# --- rules
ALERT_UNTARGETED_SECONDS: Final = 300.0  # behind so far counts as behind where no target is declared
ALERT_STUCK_SECONDS: Final = 60.0  # a base offset that does not move for so long, with members there
ALERT_HOT_SHARE: Final = 0.8  # of a lane's lag in one partition of four or more
ALERT_HOT_PARTITIONS_MIN: Final = 4
ALERT_RETENTION_SHARE: Final = 0.8  # of what a topic keeps; the oldest undone record is older
ALERT_RETENTION_LEFT_SECONDS: Final = 86_400.0  # until Kafka deletes it; with more time nobody need be woken
ALERT_DRAIN_SECONDS: Final = 3_600.0  # a drain takes no longer unless something holds it
ALERT_GROUPS_SECONDS: Final = 10.0  # between two looks at the assigner's groups; a rewind waits for three of them
ALERT_REWIND_RECORDS: Final = 1_000  # by which a committed offset goes back; a lease that changes hands repeats fewer
ALERT_REWIND_SECONDS: Final = 600.0  # for which it is told, unless they are done again before
ALERT_COPIES_SECONDS: Final = 300.0  # a topic lacks copies for so long; a broker that restarts is back before
ALERT_COPIES_TOPICS_MAX: Final = 5  # of one cluster with an alert each; more of them are one alert about the cluster
ALERT_COPIES_GAP_SECONDS: Final = 15.0  # a topic that is not named for so long has its copies; a new leader looks first
ALERT_RESTART_SECONDS: Final = 3_600.0  # a broker that leaves again within it is not part of a rolling restart

# --- forecasts
ALERT_DISK_PAGE_SECONDS: Final = 6 * 3_600.0  # until a disk is full
ALERT_DISK_TICKET_SECONDS: Final = 3 * 86_400.0
ALERT_DISK_REACH: Final = 4  # times its window: how far a forecast reaches
ALERT_DISK_TAKEN: Final = 6  # free space is at most so many times what a window took; less growth than that is a ripple
ALERT_DISK_READINGS_MIN: Final = 8  # in a window; the registry measures every 10 s
ALERT_DISK_COARSE_SECONDS: Final = 300.0  # between two readings of the windows of hours
ALERT_DISK_GAP_SECONDS: Final = 600.0  # without a reading: what was watched before says nothing about being safe
ALERT_DISK_SERIES_MAX: Final = 64  # disks of one cluster that were its fullest, 15 kB each; the oldest goes

ALERT_CERTIFICATES_SECONDS: Final = 60.0  # between two looks at certificates: each asks every replica once
ALERT_CERTIFICATES_ASKED: Final = 8  # replicas at once, a handshake of 4 ms each
ALERT_CERTIFICATES_MAX: Final = 256  # replicas whose certificates are watched; a mesh has a dozen
ALERT_CERTIFICATE_KEPT_SECONDS: Final = 900.0  # a replica that the directory does not name: it restarts or is moved
ALERT_CERTIFICATE_TICKET_SECONDS: Final = 30 * 86_400.0  # until a certificate ends: some are issued by hand
ALERT_CERTIFICATE_PAGE_SECONDS: Final = 3 * 86_400.0  # a long weekend
ALERT_CERTIFICATE_LIFE_TICKET: Final = 0.3  # of a life: short ones are renewed by a program, in their last third
ALERT_CERTIFICATE_LIFE_PAGE: Final = 0.1
ALERT_AUTHORITY_TICKET_SECONDS: Final = 90 * 86_400.0  # until an authority ends: a new one touches every machine
ALERT_AUTHORITY_PAGE_SECONDS: Final = 7 * 86_400.0

ALERT_QUIET_SECONDS: Final = 5.0  # a condition does not hold for so long until its alert is resolved

# --- what is kept
ALERTS_OPEN_MAX: Final = 2_000  # firing at once; pages come before tickets, and further ones wait until one is resolved
ALERT_CHANGES_AT_ONCE: Final = 100  # recorded by one command: some milliseconds, and fewer than a store takes at once
ALERTS_RESOLVED_MAX: Final = 1_000  # kept, newest first
ALERTS_RESOLVED_SECONDS: Final = 30 * 86_400.0
ALERT_TEXT_MAX: Final = 512  # characters of a summary
ALERT_NAME_SHOWN: Final = 100  # characters of a wrong name in an error
SILENCES_MAX: Final = 1_000
SILENCE_SECONDS_MIN: Final = 60.0
SILENCE_SECONDS_MAX: Final = 30 * 86_400.0  # what is to be silent for longer is no alert
SILENCE_REASON_MAX: Final = 256  # characters
