"""Bounds of access rights, each with its why. Seconds unless named."""

from typing import Final

# --- grants
GRANTS_MAX: Final = 10_000  # of one mesh: every replica keeps all of them in memory, and finds one by its principal
GRANTS_PER_PRINCIPAL_MAX: Final = 200  # each decision looks through those of its caller; patterns stand for many names
GRANT_REASON_CHARS_MAX: Final = 1_000  # of a reason; it is for people
GRANT_SECONDS_MAX: Final = 10 * 365 * 86_400.0  # a grant that ends; a longer one is meant to have no end

# --- revocations
REVOCATIONS_MAX: Final = 10_000  # of one mesh: every replica keeps all of them in memory; a removed CA stands for many
REVOCATION_KEPT_SECONDS: Final = 86_400.0  # after the certificate ended: by then every replica's clock says so

# --- tenants
TENANTS_MAX: Final = 200  # of one mesh: every replica has a door for each, and metrics a label
TENANT_PRINCIPALS_MAX: Final = 100  # of one tenant; a beginning stands for many
QUOTA_MAX: Final = 1_000_000_000  # a larger quota is a mistake: leave it out for none
BYTES_PER_SECOND_MAX: Final = 1 << 40  # of one Kafka user at one broker; no network card carries a tenth of it
REQUEST_PERCENTAGE_MAX: Final = 100_000  # of a broker's threads, each of which counts for 100
TENANT_KAFKA_USERS_MAX: Final = 50  # of one tenant; each is a request to every cluster at every look
KAFKA_USERS_MAX: Final = 1_000  # of all tenants together: a look at a cluster takes seconds at most
KAFKA_USER_CHARS_MAX: Final = 500  # of a user's name or client id; subjects of certificates are long
DOOR_BURST_SECONDS: Final = 1.0  # of its rate that a tenant may use at once, after a pause
DOOR_RETRY_SECONDS: Final = 1.0  # what a tenant with too many open calls is told to wait
DOOR_HOLD_SECONDS: Final = 0.25  # a refusal waits at least so long: a caller in a loop floods no faster than that
DOOR_HOLD_MAX_SECONDS: Final = 1.75  # and at most so long; each for a time of its own, as no two come back together
DOOR_HELD_MAX: Final = 1_000  # refusals of one tenant that wait at one replica; more are answered at once
DOOR_RETRY_SECONDS_MAX: Final = 5.0  # at most; a flood is told no longer time, for a quota may be raised

# --- enforcement
ACCESS_RECHECK_SECONDS: Final = 15.0  # between two looks at open streams, for grants that end by the clock
ACCESS_RECHECK_STREAMS: Final = 500  # looked at in one go; then other work has its turn
REFUSALS_REMEMBERED_MAX: Final = 1_000  # callers and methods whose refusals are logged once a minute, not each time
REFUSAL_LOG_SECONDS: Final = 60.0  # between two lines in the log about the same caller and method
ADMINS_MAX: Final = 100  # principals that are admins by settings
ADMINS_FILE_BYTES_MAX: Final = 1 << 20  # a file of principals

# --- approvals
APPROVAL_POLICIES_MAX: Final = 200  # of one mesh: each destructive request is held against all of them
APPROVALS_MAX: Final = 1_000  # waiting, or decided lately: every replica keeps all of them in memory
APPROVALS_PER_PRINCIPAL_MAX: Final = 20  # waiting for one principal, so that nobody buries the requests of others
APPROVAL_SECONDS_DEFAULT: Final = 3_600.0  # long enough to reach a colleague, short enough that nobody has forgotten
APPROVAL_SECONDS_MIN: Final = 60.0  # a person reads first
APPROVAL_SECONDS_MAX: Final = 30 * 86_400.0  # what was right a month ago is asked again
APPROVAL_LETTERS_MAX: Final = 1_000_000_000  # of `letters_over`; more letters than one index has
APPROVAL_REPEAT_SECONDS: Final = 600.0  # repeats of the call that used an approval; clients give up long before
APPROVAL_CLAIM_SECONDS: Final = 3.0  # for the registry to answer another service, whose own caller waits longer
APPROVAL_KEPT_SECONDS: Final = 86_400.0  # listed after it was used, refused or has expired
