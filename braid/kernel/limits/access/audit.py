"""Bounds of audit records, each with its why. Seconds unless named."""

from typing import Final

# --- one record: text that callers send is cut, so that a record stays small
AUDIT_RESOURCES_MAX: Final = 4  # named in one record; a request may name thousands
AUDIT_TEXT_CHARS_MAX: Final = 200  # of a resource, a request id, a tenant, a claimed principal
AUDIT_COMMAND_CHARS_MAX: Final = 600  # of the command that would do the same

# --- writing
AUDIT_WRITE_SECONDS: Final = 0.5  # between two writes: a process that is killed loses at most these and the write's own
AUDIT_BUFFER_RECORDS_MAX: Final = 10_000  # wait in memory while the store is away, some 5 MB; more are lost
AUDIT_LAST_WRITE_SECONDS: Final = 1.5  # of writing what is left when a replica ends, within what a process has to end
AUDIT_CAMPAIGN_SECONDS: Final = 1.0  # waiting for the right to write, which an earlier process may hold for a moment
AUDIT_SESSION_IDLE_SECONDS: Final = 15.0  # a replica without records keeps no session for them

# --- what repeats is counted
AUDIT_SINGLE_PER_SECOND: Final = 200  # changes of one principal recorded one by one; more in a second are counted
AUDIT_WINDOW_SECONDS: Final = 3_600.0  # after which a count begins anew, so that times of day can be told
AUDIT_ROWS_PER_PRINCIPAL: Final = 50  # counts that one principal begins in a window; its others share one
AUDIT_ROWS_MAX: Final = 2_000  # counts begun in a window by all; those of further principals share one
AUDIT_REPEAT_SECONDS: Final = (0.5, 60.0)  # a count that grows is written again after so long, doubling up to this

# --- keeping
AUDIT_RECORDS: Final = 5_000  # of each kind that a replica keeps in the store, some 2 MB: etcd holds a few GB
AUDIT_RECORDS_MAX: Final = 100_000  # they are read as a whole by whoever lists them
AUDIT_DAYS: Final = 90.0
AUDIT_KEPT_PER_PRINCIPAL: Final = 0.1  # share of the kept counts that one principal has, where others need room
AUDIT_EXPIRY_SECONDS: Final = 3_600.0  # between two looks for records that are too old
AUDIT_SLACK: Final = 0.2  # share of the records by which a history grows beyond them before it is cut
