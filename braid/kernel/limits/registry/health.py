"""Bounds and timeouts of verdicts on clusters, each with its reason. Seconds unless a name says otherwise."""

from typing import Final

# --- cluster health
PROBE_INTERVAL_SECONDS: Final = 0.25
PROBE_TIMEOUT_SECONDS: Final = 0.75
STRAND_ALLOWANCE_HOURS: Final = 14 * 24  # added to a topic's retention so an outage eats no tail

# --- verdicts on clusters
DOWN_AFTER_SECONDS: Final = 1.5  # of agreeing evidence; pauses of a broker are shorter
HEALTHY_AFTER_SECONDS: Final = 10.0  # of success, until a cluster that was unwell is trusted again
CLEARED_AFTER_SECONDS: Final = 2.0  # a suspicion that did not harden; longer keeps a good target from a failover
ALIVE_SLACK_SECONDS: Final = 0.25  # acknowledgements that were on their way when a cluster died prove nothing
LAST_LOOK_SECONDS: Final = 0.25  # at least, of a look that ends with the time that bad evidence must last
REFUSED_LOOKS_MIN: Final = 2  # in a row, with producers' reports: stronger than a time-out; one alone may be a restart
SLOW_FLOOR_SECONDS: Final = 0.3  # an append that takes less is never slow, whatever the cluster's usual is
SLOW_FACTOR: Final = 8.0  # times its usual: batches, other tenants and elections make less than that of it
SLOW_AFTER_SECONDS: Final = 10.0  # of slow looks: a burst passes, and moving costs repeats
SLOW_LOOKS: Final = 9  # whose middle one is looked at: a single fast or slow one changes nothing
SLOW_TIMEOUT_PART: Final = 2 / 3  # of a look's time-out: beyond, a cluster is slow though it always was
USUAL_QUANTILE: Final = 0.9  # of a cluster's appends that are faster than its usual time
USUAL_STEP: Final = 3e-4  # a look's part in the usual time: what doubles is the new usual after ten minutes
USUAL_TOLD_PART: Final = 0.2  # of what is slow here: so much it must change for the usual time to be written down anew
USUAL_LOOKS_MIN: Final = 40  # before there is a usual time: ten seconds
HALF_DEAD_AFTER_SECONDS: Final = 3.0  # a partition without a leader for so long; elections take less
GONE_SHARE_MAX: Final = 0.5  # of what is looked at; with more of it gone the cluster counts as dead
CHANNEL_GONE_SHARE_MAX: Final = 0.2  # of a channel's partitions: keyed records of one wait in its producers' memory
CHANNEL_GONE_AFTER_SECONDS: Final = 5.0  # without a leader, until the channel moves: moving costs a drain
PARTITION_GONE_AFTER_SECONDS: Final = 15.0  # of any, until then: its keyed records fill what their producers may hold
CONTROLLER_LOOK_SECONDS: Final = 5.0  # between two questions whether a topic would be made: a request to the controller
NO_TOPICS_AFTER_SECONDS: Final = 10.0  # of failed questions; an election of a controller takes less
RIDE_OUT_SECONDS: Final = 0.0  # of a broker that died, until traffic leaves; Kafka elects after 9 s by default
RIDE_OUT_SECONDS_MAX: Final = 3_600.0
HANDED_OVER_SECONDS: Final = (
    5.0  # of hanging appends while every broker answers: leaders are handed over, followers wait
)
BROKER_FORGOTTEN_SECONDS: Final = 3_600.0  # one that went for good is named so long
TOPICS_LOOK_SECONDS: Final = 2.0  # between two looks at the leaders of all our topics: larger answers than a canary's
TOPICS_LOOK_MAX: Final = 500  # topics asked for at once
GONE_NAMED_MAX: Final = 5  # of what is gone, in a reason
UNDER_REPLICATED_NAMED_MAX: Final = 20  # topics in an answer; with more than five, one alert is about the cluster
FLAP_FALLS: Final = 4  # within the window; then a cluster is held back when it returns
FLAP_FALLS_MAX: Final = 16  # remembered; more change nothing
FLAP_WINDOW_SECONDS: Final = 300.0
FLAP_HOLD_SECONDS: Final = 60.0  # after the fall that is one too many; doubled with each further one
FLAP_HOLD_SECONDS_MAX: Final = 300.0  # falls count no longer either

# --- hosts as witnesses of clusters
SEND_REPORT_SECONDS: Final = 1.0  # what a host said of a cluster counts so long; it says it again while it lasts
SEND_REPORTERS_MIN: Final = 3  # hosts that must agree while the registry's own looks succeed
SEND_REPORTERS_SHARE: Final = 2 / 3  # of the hosts that use the cluster, where they are fewer
SOLE_WITNESS_SECONDS: Final = 10.0  # of one host's complaints, where no other uses the cluster: its own trouble passes
COMPLAINT_PAUSE_SECONDS: Final = 3.0  # longest pause between a host's complaints: a late producer complains of nobody
WITNESSES_ASKED_MAX: Final = 64  # producers, and processes of consumers, asked at once; of distinct hosts first
WITNESS_HOSTS_MAX: Final = 1_000  # of one principal, heard of a cluster: it counts once whatever it names
WITNESSES_KEPT_MAX: Final = 20_000  # hosts heard of a cluster: one a session at most
LEFT_CLUSTER_SECONDS: Final = 10.0  # after traffic left a cluster, its producers' reports count: they were just there
READING_KNOWN_SECONDS: Final = 1.0  # how long it is remembered whether a process may read from a cluster
READERS_MAX: Final = 20_000  # streams of consumers' processes at one registry; further ones are refused
CLUSTERS_READ_MAX: Final = 1_000  # clusters named by one of them; the rest is not heard
CONTACT_LOOK_SECONDS: Final = 0.25  # how often a process of consumers looks whether its clusters answer
COMPLAIN_AGAIN_SECONDS: Final = (1.0, 16.0)  # unasked, doubled each time: thousands of processes lose a cluster at once
UNKNOWN_CALL_TRIES: Final = 6  # an RPC unknown so often in a row, the leader asked for anew each time: it has none

# --- a registry's own lateness
LATENESS_PULSE_SECONDS: Final = 0.1  # how often a registry looks whether it is late itself
LATENESS_SLACK_SECONDS: Final = 0.05  # of a timer; more is lateness, and is not counted against clusters
LATE_LOOK_SECONDS: Final = 1.0  # of lateness in one look: its errors may be our own clients' timers

# --- logs that went on after a connection had ended
RESUMPTIONS_BYTES_MAX: Final = 1 << 20  # of all channels, in one hello; beyond it the older half of each channel's goes
RESUMPTIONS_MAX: Final = 256  # of one channel, that a producer keeps to tell a new registry; the newest
UNPLACED_MAX: Final = 128  # messages of a producer about channels that the history does not know; the newest are kept
STRETCHES_MAX: Final = 16  # of offsets in one of them, by which its records are found; the first and the newest
RESUMPTIONS_TOLD_MAX: Final = 10_000  # of one channel, that a registry has yet to look at; further ones are passed over
EPOCH_LOOKS_MAX: Final = 400  # reads of a log in one look for a cut; six halvings of Kafka's 63 bits, and some
