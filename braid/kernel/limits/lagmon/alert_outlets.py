"""Bounds and times of sending alerts to webhooks and Alertmanagers, each with its reason. In seconds by default."""

from typing import Final

# --- outlets
OUTLETS_MAX: Final = 16  # each has a task, a connection and its share of the history
OUTLET_LOOK_SECONDS: Final = 1.0  # between two looks for what is to be sent: half of what an alert may take to be seen
OUTLET_TROUBLE_ATTEMPTS: Final = 3  # failures in a row until an outlet is said to fail; one is a receiver's restart

# --- posts
OUTLET_POST_SECONDS: Final = 10.0  # of one post, from the connection to the status; no pager takes as long
OUTLET_RETRY_SECONDS: Final = (1.0, 60.0)  # shortest and longest pause after a failure
OUTLET_RETRY_AFTER_SECONDS_MAX: Final = 300.0  # of what a receiver asks for; a page cannot wait for longer
OUTLET_SECRET_BYTES_MAX: Final = 4_096  # of a file with a token or keys
OUTLET_SECRETS_MAX: Final = 4  # keys in a file, while they are changed
OUTLET_REASON_MAX: Final = 200  # characters of why an outlet fails

# --- notifications of webhooks
NOTIFICATION_REFUSED_ATTEMPTS: Final = 5  # of a message that the receiver calls wrong; it holds up the next ones
NOTIFICATION_OVER_SECONDS: Final = 3_600.0  # an alert that is over for longer is not news: nobody is told that it fired
NOTIFICATION_OWED_SECONDS: Final = 86_400.0  # then the end of an alert is given up: its incident was closed by a person
NOTIFICATIONS_KEPT_MAX: Final = 4_000  # alerts of an outlet whose last notification is remembered; more than there are

# --- Alertmanager
ALERTMANAGER_RESEND_SECONDS: Final = 60.0  # as Prometheus does
ALERTMANAGER_END_AHEAD_SECONDS: Final = (
    300.0  # until it takes an alert that is not sent again for over; covers a failover
)
ALERTMANAGER_ENDED_SECONDS: Final = 900.0  # an end is sent again for so long, as Prometheus does
ALERTMANAGER_BATCH: Final = 64  # alerts in a post, some 100 kB
