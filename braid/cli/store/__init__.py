"""`braid store`: takes and restores backups of the event store."""
